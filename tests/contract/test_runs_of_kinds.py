"""What a run of any kind does, in one suite: help, dry run, refusals, reuse, seed, publication.

Every kind releases the simulated city of tests/golden. What only one kind does is tested in tests/e2e.
"""

import json
import re
import shutil
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.golden.record import arguments, world

from shoal.kinds import KINDS
from shoal.kinds.run import Build
from shoal.kinds.verdict import GRADES
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import open_ledger
from shoal.release.manifest import Manifest
from shoal.release.readme import readme_problems
from shoal.release.verify import check_release

ROOT = Path(__file__).parents[2]
RELEASES = {
    "density": arguments("density-gaussian"),
    "histogram": [*arguments("histogram-prish"), "--delta", "1e-6"],
    "synthetic": arguments("synthetic-gaussian"),
    "commute": [*arguments("synthetic-commute"), "--delta", "1e-6"],
    "trajectories": arguments("trajectories"),
    "query": arguments("query-gaussian"),
}
PURE = {
    "density": arguments("density-laplace"),
    "histogram": arguments("histogram-prish"),
    "synthetic": arguments("synthetic-bridges"),
    "commute": arguments("synthetic-commute"),
    "query": arguments("query-laplace"),
}
SPENDING = sorted(name for name, kind in KINDS.items() if kind.is_private)
SEEDED = sorted(set(SPENDING) - {"query"})  # a query is answered once and has no report
COMMAND = {kind: line[: 1 if line[0] == "query" else 2] for kind, line in RELEASES.items()}
SHARED_FLAGS = {"--plan", "--population", "--out", "--run-id", "--supersedes", "--dry-run", "--json"}
EVENTS = ("events.parquet", "trips.parquet")

of_every_kind = pytest.mark.parametrize("kind", RELEASES)
of_every_private_kind = pytest.mark.parametrize("kind", SPENDING)


@pytest.fixture
def city(tmp_path, monkeypatch):
    """The simulated city in a folder of its own, with a new ledger."""
    world(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))
    return tmp_path


@pytest.fixture
def release(city, command):
    """Runs the release of a kind with more flags: what it says to programs."""

    def run(kind, *flags):
        code, out, error = command(*RELEASES[kind], *flags, "--json")
        assert code == 0, error
        return json.loads(out)

    return run


@pytest.fixture
def refusal(city, command):
    """The obstacles of a dry run, once the run itself stopped with `code` and left nothing behind."""

    def refused(kind, exit_code, code, *flags):
        foreseen, out, _ = command(*RELEASES[kind], *flags, "--dry-run", "--json")
        summary = json.loads(out)
        assert foreseen == summary["exit_code"] == exit_code
        before, head = files_of(city), open_ledger().head()
        stopped, out, error = command(*RELEASES[kind], *flags)
        assert (stopped, error.partition(":")[0]) == (exit_code, code), error
        assert all(line.startswith("note ") for line in out.splitlines())
        assert "Traceback" not in error
        assert len(error.strip().splitlines()) > 1 or "`shoal " in error, "a rule without a remedy"
        assert files_of(city) == before
        assert open_ledger().head() == head
        return summary["obstacles"]

    return refused


def files_of(folder):
    """Every file of a folder, but for owner's folders that stand empty."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "ledger" not in path.name
    }


def spent(population="golden"):
    """What a population has spent, summed over its pots."""
    return sum(pot.spent_nano for pot in open_ledger().state().population(population).pots.values())


def change_events(city, change):
    for name in EVENTS:
        pq.write_table(change(pq.read_table(city / name)), city / name)


def test_every_kind_is_run():
    assert set(RELEASES) == set(KINDS)
    assert sorted(PURE) == SPENDING


@of_every_kind
def test_the_verdict_is_the_same_in_every_place(kind, city, command, release):
    """Dry run, result, manifest and README; computed anew from the folder alone, it is the published one."""
    _, out, _ = command(*RELEASES[kind], "--dry-run", "--json")
    foreseen = json.loads(out)["verdict"]
    assert foreseen["grade"] in (None, *GRADES)
    assert foreseen["summary"].endswith(".")
    done = release(kind)
    folder = Path(done["release"])
    manifest = Manifest.from_json((folder / "manifest.json").read_text())
    said = json.loads(json.dumps(manifest.verdict))
    assert done["verdict"] == said == KINDS[kind].verdict(folder, manifest).to_plain()
    assert said["grade"] in GRADES
    readme = (folder / "README.md").read_text()
    assert f"**{said['grade'].capitalize()}.** {said['summary']}" in readme
    assert all(f"- {way}" in readme for way in said["advice"])
    assert check_release(folder).problems == ()
    (folder / "README.md").write_text(readme.replace(said["summary"], "Perfect."))
    assert list(readme_problems((folder / "README.md").read_text(), manifest))


@of_every_kind
def test_help_has_an_example_and_the_flags_of_every_run(command, kind):
    code, out, _ = command(*COMMAND[kind], "--help")
    assert code == 0
    assert f"    shoal {' '.join(COMMAND[kind])} " in out
    assert set(re.findall(r"--[a-z-]+", out)) >= SHARED_FLAGS | ({"--seed"} if kind in SEEDED else set())


@of_every_kind
def test_a_page_of_the_documentation_shows_the_command_and_is_linked(kind):
    command = f"shoal {' '.join(COMMAND[kind])} "
    command += "'calls/events/*.parquet' --method commute" if kind == "commute" else ""
    linked = re.findall(r"\]\((docs/[a-z-]+\.md)", (ROOT / "README.md").read_text("utf-8"))
    assert any(command in (ROOT / page).read_text("utf-8") for page in linked)


@of_every_kind
def test_a_dry_run_reads_no_row_writes_nothing_and_says_what_a_run_would_do(city, command, kind):
    for name in EVENTS:  # the rows themselves are overwritten: whatever reads one fails
        whole = (city / name).read_bytes()
        footer = int.from_bytes(whole[-8:-4], "little") + 8
        (city / name).write_bytes(whole[:4] + bytes(len(whole) - footer - 4) + whole[-footer:])
    before, head = files_of(city), open_ledger().head()
    code, out, error = command(*RELEASES[kind], "--dry-run")
    assert code == 0, error
    summary = json.loads(command(*RELEASES[kind], "--dry-run", "--json")[1])
    assert (summary["dry_run"], summary["obstacles"]) == (True, [])
    for sentence in (*summary["notes"], summary["promise"].removesuffix(".")):
        assert sentence in out
    for spend in summary["spends"]:
        assert f"for {spend['pays_for']}" in out
    assert bool(summary["spends"]) == ("budget" in summary) == KINDS[kind].is_private
    assert (files_of(city), open_ledger().head()) == (before, head)
    assert command(*RELEASES[kind])[0] != 0, "the rows could be read after all"


@of_every_kind
def test_a_population_that_does_not_exist(refusal, kind):
    (only,) = refusal(kind, 4, "unknown-population", "--population", "nobody")
    assert 'no population "nobody"' in only


@of_every_kind
def test_a_folder_that_exists(refusal, city, kind):
    (city / "there").mkdir()
    (city / "there" / "mine.txt").write_text("keep")
    (only,) = refusal(kind, 5, "folder-exists", "--out", "there")
    assert "there exists" in only


@of_every_private_kind
def test_a_population_that_takes_pure_releases_only(refusal, command, kind):
    open_ledger().create("pure", currency="epsilon", limit_nano=10**10)
    (only,) = refusal(kind, 4, "not-pure", "--population", "pure")
    assert "takes pure releases only" in only
    code, _, error = command(*PURE[kind], "--population", "pure", "--epsilon", 0.5)
    assert code == 0, error
    assert 0.499 * 10**9 < spent("pure") <= 0.5 * 10**9


@of_every_private_kind
def test_a_budget_that_is_not_enough(refusal, kind):
    open_ledger().create("poor", currency="rho", limit_nano=1)
    (only,) = refusal(kind, 4, "budget-exceeded", "--population", "poor")
    assert "left" in only


@of_every_private_kind
def test_a_population_that_is_counted_per_another_unit(refusal, kind):
    ledger = open_ledger()
    ledger.reserve("golden", Loss.gaussian(1), key="k" * 64, what="another release", unit="trip")
    (only,) = refusal(kind, 4, "unit-mixed")
    assert "counted per trip" in only


@of_every_kind
@pytest.mark.parametrize("setting", ["population", "start", "end", "time_zone", "epsilon"])
def test_a_plan_without_a_setting_that_it_needs(city, command, kind, setting):
    line = [word for word in RELEASES[kind] if kind != "query" or word not in ("--epsilon", "0.5")]
    plan = city / next(word for word in line if word.endswith(".toml"))
    plan.write_text(re.sub(rf"^{setting} = .*$", "", plan.read_text(), flags=re.M))
    code, _, error = command(*(line if setting == "epsilon" else RELEASES[kind]))
    if setting == "epsilon" and not KINDS[kind].is_private:
        assert code == 0
        return
    assert code == 2, error
    assert error.partition(":")[0] in ("plan-incomplete", "query-price")
    assert f"--{setting.replace('_', '-')}" in error or kind == "query"
    assert (spent(), open_ledger().releases()) == (0, [])


@of_every_private_kind
@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "1e300"])
def test_a_price_that_makes_no_sense(city, command, kind, epsilon):
    code, _, error = command(*RELEASES[kind], "--epsilon", epsilon)
    assert (code, error.partition(":")[0]) == (2, "epsilon-range")
    assert "--epsilon" in error
    assert spent() == 0


@of_every_kind
def test_a_row_without_a_user_stops_a_run_before_it_is_paid(city, command, release, kind):
    def forget(table):
        users = table["user"].to_pylist()
        return table.set_column(0, "user", pa.array([None, *users[1:]], table["user"].type))

    change_events(city, forget)
    code, _, error = command(*RELEASES[kind])
    assert (code, error.partition(":")[0]) == (3, "bad-row")
    assert "--on-bad-row drop" in error
    assert (spent(), open_ledger().releases()) == (0, [])
    plan = next(path for path in map(str, RELEASES[kind]) if path.endswith(".toml"))
    Path(plan).write_text(Path(plan).read_text().replace("[source]", '[source]\non_bad_row = "drop"'))
    assert release(kind)["release"]


@of_every_kind
@pytest.mark.parametrize("where", ["in another month", "nowhere: the file has no row"])
def test_nobody_in_the_window_stops_a_run_unless_it_may_be_empty(city, command, kind, where):
    """Then it is noise, which does not tell that nobody was there; records of nobody do not exist."""
    if where == "in another month":
        for plan in (city / "plans").glob("*.toml"):
            plan.write_text(plan.read_text().replace("2026-03-0", "2026-05-0"))
    else:
        change_events(city, lambda table: table.slice(0, 0))
    code, _, error = command(*RELEASES[kind])
    assert (code, error.partition(":")[0], spent()) == (2, "nobody-counted", 0)
    code, out, error = command(*RELEASES[kind], "--json", "--allow-empty")
    if not KINDS[kind].is_private:
        assert (code, error.partition(":")[0]) == (3, "nobody")
        return
    assert code == 0, error
    made = json.loads(out)
    assert command("verify", made["release"])[0] == 0
    assert kind == "query" or "eyes only" in Path(made["report"]).read_text()
    assert spent() > 0


@of_every_kind
def test_a_user_added_in_between_changes_nothing_that_is_published(city, command, release, kind):
    """Two runs of one plan: the same bytes and one spend; that the files changed is for the owner alone."""
    first = release(kind)
    folder = Path(first["release"])
    assert {KINDS[kind].main_file, "README.md", "manifest.json"} <= {path.name for path in folder.iterdir()}
    published, price = files_of(folder), spent()
    assert bool(price) == KINDS[kind].is_private
    more = lambda table: pa.concat_tables([table, table.slice(0, 3).set_column(0, "user", NEW)])  # noqa: E731
    change_events(city, more)
    again = release(kind)
    assert (first["reused"], again["reused"]) == (False, True)
    foreseen = json.loads(command(*RELEASES[kind], "--dry-run", "--json")[1])
    assert (foreseen["stored"], foreseen["obstacles"]) == (first["release"], [])
    assert (first["source_changed"], again["source_changed"]) == (False, True)
    assert (again["release"], files_of(folder), spent()) == (first["release"], published, price)
    out = command(*RELEASES[kind])[1]
    assert "here it is again, and nothing was spent" in out
    assert "rows " not in out
    shutil.rmtree(folder)
    code, _, error = command(*RELEASES[kind])
    assert (code, error.partition(":")[0]) == (4, "release-missing")
    assert command(*RELEASES[kind], "--dry-run")[0] == 4


NEW = pa.array([10_000] * 3, pa.int64())


@of_every_kind
def test_another_run_id_is_another_release_and_is_paid_again(city, release, kind):
    first, price = release(kind), spent()
    more = ["--compose-with", first["release"]] if kind == "trajectories" else []
    second = release(kind, "--run-id", "2", "--out", "second", *more)
    assert (second["reused"], spent()) == (False, 2 * price)


@of_every_kind
def test_a_release_is_shown_verified_and_published_and_a_change_is_noticed(city, command, release, kind):
    folder = Path(release(kind)["release"])
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    promise = json.loads((folder / "manifest.json").read_text())["promise"]
    assert promise in (folder / "README.md").read_text()
    columns = json.loads((folder / "manifest.json").read_text())["columns"]
    assert columns == {name: dict(KINDS[kind].files[name]) for name in columns}
    code, _, error = command("publish", folder, "public")
    assert code == 0, error
    assert files_of(Path("public")) == files_of(folder)
    for shown in ("verify", "inspect"):
        code, out, error = command(shown, "public")
        assert code == 0, error
        assert " ".join(promise.split()) in " ".join(out.split())
    if kind not in ("query", "histogram"):  # their files are not events
        main = Path("public") / KINDS[kind].main_file
        private = "exact numbers of private data"
        assert private not in command("inspect", main)[1]
        shutil.copy(main, "records.copy.parquet")
        assert private in command("inspect", "records.copy.parquet")[1]
    shutil.rmtree("public")
    main = folder / KINDS[kind].main_file
    main.chmod(0o600)
    main.write_bytes(main.read_bytes() + b"\n")
    code, _, error = command("verify", folder)
    assert (code, main.name in error) == (6, True)
    assert "release-changed" in command("publish", folder, "public")[2]
    assert not Path("public").exists()


@of_every_kind
def test_only_the_owner_may_read_the_owners_folder(city, release, kind):
    made = release(kind)
    if made.get("report") is None:
        assert kind == "query"
        return
    owner = Path(made["report"]).parent
    assert stat.S_IMODE(owner.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in owner.iterdir() if path.is_file()} == {0o600}
    page = Path(made["report"]).read_text()
    assert "eyes only" in page
    title = re.search(r"<title>(.*?)</title>", page, re.S)
    assert title
    assert Path(made["release"]).name in title[1]


@pytest.mark.parametrize("kind", SEEDED)
def test_a_seeded_run_stays_with_the_owner_and_repeats(city, command, release, kind):
    first = release(kind, "--seed", 7, "--owner", "mine")
    second = release(kind, "--seed", 7, "--owner", "other")
    assert (first["publishable"], spent(), (city / "releases").exists()) == (False, 0, False)
    assert [Path(each["release"]).name for each in (first, second)] == ["seeded-7", "seeded-7"]
    manifest = json.loads((Path(first["release"]) / "manifest.json").read_text())
    assert manifest["reproducible"] is True
    assert "not for publication" in manifest["note"]
    population = open_ledger().state().population("golden")
    assert population.tuned
    assert any("seeded, not for publication" in note["what"] for note in population.notes)
    main = KINDS[kind].main_file
    assert files_of(Path(first["release"]))[Path(main)] == files_of(Path(second["release"]))[Path(main)]
    code, _, error = command("publish", first["release"], "public")
    assert code == 4, error
    assert not Path("public").exists()
    assert "not for publication" in command(*RELEASES[kind], "--seed", 8)[1]


@of_every_kind
def test_a_failure_after_the_reserve_counts_as_spent_and_leaves_nothing(city, command, monkeypatch, kind):
    def broken(*_):
        raise RuntimeError("user 123456 is at s0")

    monkeypatch.setattr(KINDS[kind].build, "__call__", broken)
    code, out, error = command(*RELEASES[kind])
    assert code in (1, 3)
    assert "123456" not in out + error
    assert "Traceback" not in error
    assert not list(city.glob("releases/*"))
    population = open_ledger().state().population("golden")
    assert bool(spent()) == KINDS[kind].is_private
    assert {each.status for each in population.spends} <= {"unresolved (counts as spent)"}
    assert issubclass(KINDS[kind].build, Build)


@of_every_kind
def test_a_report_that_cannot_be_drawn_leaves_the_release_in_place(city, command, monkeypatch, kind):
    def broken(*_):
        raise ZeroDivisionError

    if kind == "query":
        return  # it has no report
    monkeypatch.setattr(KINDS[kind].build, "report", broken)
    code, _, error = command(*RELEASES[kind])
    assert code == 5
    assert error.startswith("report-failed: the release is in place")
    assert "ZeroDivisionError" in error
    monkeypatch.undo()
    monkeypatch.chdir(city)
    monkeypatch.setenv("SHOAL_LEDGER", str(city / "ledger.sqlite"))
    ((folder, _),) = [(note.path, note) for _, note in open_ledger().releases()]
    assert command("verify", folder)[0] == 0
