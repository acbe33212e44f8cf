"""`shoal query` from a plan to answers: what is counted, what is asked again, what is refused."""

import json

import pytest

from shoal.engine.engine import DuckEngine
from shoal.errors import BudgetExceeded, PlanError
from shoal.kinds.ask import Ask
from shoal.kinds.plan import read_plan
from shoal.kinds.query.build import QuerySession
from shoal.kinds.query.plan import QueryPlan
from shoal.kinds.query.prepare import prepare_query
from shoal.privacy.ledger import open_ledger
from shoal.release.verify import check_release

PLAN = """population = "town"
epsilon = 0.5
method = "best"
ell = 3
out = "release"

[source]
paths = ["events.parquet"]

[space]
zones = "zones.geojson"
sites = "sites.csv"

[window]
start = "2026-03-02"
end = "2026-03-03"
time_zone = "Europe/Paris"
"""
NEARLY_EXACT = ("--mechanism", "laplace", "--epsilon", 2000)


@pytest.fixture
def ask(town, command, monkeypatch):
    """Run a query on the tiny town, in its folder."""
    (town.folder / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(town.folder)
    return lambda *flags: command("query", "--plan", "plan.toml", *flags)


def spent():
    return open_ledger().state().population("town").spent_nano


def answers(out):
    return {row["query"]: row for row in json.loads(out)["answers"]}


def test_an_answer_counts_visits_in_zones_and_slots(ask, town):
    open_ledger().create("rich", currency="rho", limit_nano=10**18)
    town.events(
        user=[1, 1, 1, 2, 3],
        time=[town.start, town.start + 5, town.start + town.hour, town.start, town.start + 2 * town.hour],
        site=["S0", "S0", "S1", "S0", "S3"],
    )
    rich = (*NEARLY_EXACT, "--population", "rich", "--json")
    lines = [
        {"name": "all"},
        {"name": "A, first hour", "zones": ["A"], "slots": [0]},
        {"name": "west", "bbox": [2.3, 48.8, 2.31, 48.82]},
        {"name": "second hour", "from": "2026-03-02T01:00", "to": "2026-03-02T02:00"},
    ]
    (town.folder / "q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, err = ask("--file", "q.jsonl", *rich)
    assert (code, err) == (0, "")
    found = {name: round(row["visits"]) for name, row in answers(out).items()}
    assert found == {"all": 4, "A, first hour": 2, "west": 2, "second hour": 1}
    code, out, _ = ask("--zones-in", "A,B", "--slots", "0-1", *rich)
    assert round(answers(out)["query"]["visits"]) == 3


def test_the_spend_is_in_the_ledger_and_the_folder_verifies(ask, town):
    code, out, err = ask("--epsilon", 0.1, "--json")
    shown = json.loads(out)
    assert (code, err) == (0, "")
    assert spent() > 0
    folder = town.folder / shown["folder"]
    assert check_release(folder).problems == ()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert [spend["name"] for spend in manifest["spends"]] == ["sizes", "answers"]
    assert round(sum(spend["rho"] for spend in manifest["spends"]) * 1e9) == spent()
    assert "ell" not in manifest["public"]  # all visits count
    row = answers(out)["query"]
    assert row["visits_low"] <= row["visits"] <= row["visits_high"]


def test_the_same_query_again_is_free_and_the_same(ask):
    first = json.loads(ask("--epsilon", 0.1, "--slots", "1", "--json")[1])
    once = spent()
    again = json.loads(ask("--epsilon", 0.1, "--slots", "1-1", "--json")[1])
    assert (again["reused"], again["answers"], spent()) == (True, first["answers"], once)
    other = json.loads(ask("--epsilon", 0.1, "--slots", "1", "--run-id", "b", "--json")[1])
    assert (other["reused"], spent()) == (False, 2 * once)
    assert "nothing was spent" in ask("--epsilon", 0.1, "--slots", "1", "--out", "elsewhere")[1]


def test_queries_spend_until_the_budget_is_gone(ask, town):
    rho = 0.03  # of 0.1
    for number in range(3):
        assert ask("--rho", rho, "--slots", number)[0] == 0
    before = spent()
    code, out, err = ask("--rho", rho, "--slots", 3)
    assert (code, out) == (4, "")
    assert err.startswith("budget-exceeded:")
    assert spent() == before
    assert len(list(town.folder.glob("query-*"))) == 3


def test_a_dry_run_says_how_far_a_user_moves_an_answer(ask):
    code, out, _ = ask("--rho", 0.02, "--slots", "0-1", "--dry-run", "--json")
    shown = json.loads(out)
    assert code == 0
    (query,) = shown["queries"]
    assert query["most"] == pytest.approx(2.0, abs=1e-5)
    assert query["half"] == pytest.approx(1.96 * 2 / (2 * 0.02 * 5 / 6) ** 0.5, rel=1e-3)
    assert "this release needs rho = 5" in ask("--rho", 5, "--dry-run")[1]
    assert "gaussian is likely better" in ask("--rho", 0.02, "--mechanism", "weights", "--dry-run")[1]


def test_weights_answer_a_file(ask, town):
    lines = [json.dumps({"slots": [slot], "name": f"hour {slot}"}) for slot in range(24)]
    (town.folder / "q.jsonl").write_text("\n".join(lines))
    code, out, err = ask(
        "--file", "q.jsonl", "--mechanism", "weights", "--rho", 0.05, "--updates", 4, "--json"
    )
    assert (code, err) == (0, "")
    found = answers(out)
    assert len(found) == 24
    assert sum(row["how"] == "noise" for row in found.values()) <= 4
    assert spent() <= 5 * 10**7
    manifest = json.loads((town.folder / json.loads(out)["folder"] / "manifest.json").read_text())
    assert [each["name"] for each in manifest["spends"]] == ["total", "test", "answers", "error"]
    assert manifest["public"]["updates"] == 4


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--epsilon", 0.1, "--zones-in", "Z"), 2, "query-set"),
        (("--epsilon", 0.1, "--zones-in", ","), 2, "no zone"),
        (("--epsilon", 0.1, "--slots", "24"), 2, "query-set"),
        (("--epsilon", 0.1, "--file", "none.jsonl"), 2, "query-file"),
        (("--epsilon", 0.1, "--file", "q.jsonl", "--slots", "1"), 2, "got both"),
        (("--epsilon", 0.1, "--rho", 0.1), 2, "plan-price"),
        (("--epsilon", 0.1, "--bbox", "1,2"), 2, "four numbers"),
        (("--epsilon", 0.1, "--mechanism", "weights", "--updates", 0), 2, "updates"),
        (("--epsilon", 0.1, "--out", "plan.toml"), 5, "plan.toml"),
    ],
)
def test_errors_say_what_to_do_and_spend_nothing(ask, flags, code, words):
    got, out, err = ask(*flags)
    assert (got, out) == (code, "")
    assert words in err
    assert "Traceback" not in err
    assert spent() == 0


def test_without_a_plan_file_flags_say_all(ask, town, command):
    _, planned, _ = ask("--epsilon", 0.1, "--slots", "0-5", "--json")
    places = ("--zones", "zones.geojson", "--sites", "sites.csv", "--slots", "0-5")
    window = ("--start", "2026-03-02", "--end", "2026-03-03", "--time-zone", "Europe/Paris")
    arguments = ("query", "events.parquet", *places, *window, "--population", "town", "--json")
    code, out, err = command(*arguments, "--epsilon", 0.1, "--run-id", "flags")
    assert (code, err) == (0, "")
    assert json.loads(out)["answers"][0]["slots"] == json.loads(planned)["answers"][0]["slots"] == 6
    assert "query-price" in command(*arguments)[2]
    without = (each for each in arguments if each not in window)
    assert "Pass --start, --end" in command(*without, "--rho", 0.01)[2]


def test_two_queries_of_one_name_are_refused(ask, town):
    (town.folder / "q.jsonl").write_text('{"name": "a"}\n{"name": "a", "slots": [1]}\n')
    assert "query-name" in ask("--epsilon", 0.1, "--file", "q.jsonl")[2]


class CountingEngine(DuckEngine):
    """Keeps how often the events were counted."""

    counted = 0

    def sum_users(self, events, kernel, progress=None):
        CountingEngine.counted += 1
        return super().sum_users(events, kernel, progress)


@pytest.mark.parametrize(("mechanism", "counted"), [("weights", 1), ("gaussian", 3)])
def test_in_a_session_every_ask_spends_and_the_table_of_weights_is_counted_once(
    ask, town, monkeypatch, mechanism, counted
):
    monkeypatch.setattr(CountingEngine, "counted", 0)

    def prepared(slot, **flags):
        flags = {"rho": 0.01, "mechanism": mechanism, **flags}
        return prepare_query(QueryPlan.from_settings(read_plan("plan.toml"), flags, (Ask(slots=(slot,)),)))

    ledger = open_ledger()
    session = QuerySession(prepared(0), ledger, engine=CountingEngine())
    for number in range(3):
        made = session.ask(prepared(number))
        assert (made.reused, spent()) == (False, (number + 1) * 10**7)
    assert CountingEngine.counted == counted
    assert session.ask(prepared(1)).reused
    assert spent() == 3 * 10**7
    session.ask(prepared(0, ell=2))
    assert CountingEngine.counted == counted + 1  # another bound is another table
    with pytest.raises(PlanError, match="query-session"):
        session.ask(prepared(0, population="other"))
    with pytest.raises(BudgetExceeded):
        session.ask(prepared(0, rho=1.0))
    assert spent() == 4 * 10**7


def test_key_and_folder_are_named_by_what_was_asked_not_by_the_events(ask, town):
    def prepared(slot):
        settings = read_plan("plan.toml")
        return prepare_query(QueryPlan.from_settings(settings, {"rho": 0.0001}, (Ask(slots=(slot,)),)))

    key, out = prepared(0).key(), prepared(0).out
    town.events(user=[1, 2], time=[town.start] * 2, site=["s1"] * 2)
    assert prepared(0).key() == key
    assert prepared(0).out == out
    assert prepared(1).out != out


def test_a_session_refuses_another_map_of_the_same_name(ask, town):
    def prepared():
        return prepare_query(
            QueryPlan.from_settings(read_plan("plan.toml"), {"rho": 0.0001}, (Ask(slots=(0,)),))
        )

    session = QuerySession(prepared(), open_ledger())
    sites = town.folder / "sites.csv"
    lines = sites.read_text().splitlines()
    sites.write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    with pytest.raises(PlanError) as said:
        session.ask(prepared())
    assert said.value.code == "query-session"
