"""`shoal attack reconstruct`: a log of queries, the hospital example, the demonstration, bad logs.
`shoal attack unicity` on the tiny town, whose answer can be seen by eye.
"""

import json
import stat

import pyarrow.parquet as pq
import pytest

HOSPITAL = [
    {"zones": ["hospital"], "slots": [0, 1, 2], "answer": 40},
    {"zones": ["hospital"], "slots": [0, 1, 2], "except": ["L1", "L2"], "answer": 39},
    {"zones": ["hospital", "park"], "slots": [0], "answer": 21},
    {"zones": ["park"], "slots": [0], "answer": 6},
    {"zones": ["hospital"], "slots": [1, 2], "answer": 25},
]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "queries.jsonl"
    path.write_text("\n".join(json.dumps(each) for each in HOSPITAL) + "\n")
    return path


def test_a_log_is_attacked(log, tmp_path, command):
    code, out, err = command("attack", "reconstruct", log, "--out", tmp_path / "owner", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["disclosed"] == [{"zone": "hospital", "slot": 0}, {"zone": "park", "slot": 0}]
    pairs = [(each["plus"], each["minus"]) for each in told["differences"]]
    assert ([1], [2]) in pairs  # section 1.1.2
    assert ([3], [4]) in pairs
    john = next(each for each in told["differences"] if each["plus"] == [1] and each["minus"] == [2])
    assert (john["of"], john["except"]) == ("people", ["L1", "L2"])
    counts = {(each["zone"], each["slot"]): each["count"] for each in told["counts"]}
    assert counts["hospital", 0] == 15
    assert counts["park", 0] == 6
    path = tmp_path / "owner" / "reconstruct.json"
    assert json.loads(path.read_text())["disclosed"] == told["disclosed"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    code, out, err = command("attack", "reconstruct", log, "--out", tmp_path / "owner")
    assert (code, err) == (0, "")
    assert "query 1 - query 2 counts only those of L1, L2, in 3 cells" in out


def test_a_log_is_held_against_the_events(town, tmp_path, command):
    plan = tmp_path / "density.toml"
    plan.write_text(
        """[source]
paths = ["events.parquet"]
[space]
zones = "zones.geojson"
sites = "sites.csv"
[window]
start = "2026-03-02"
end = "2026-03-03"
time_zone = "Europe/Paris"
"""
    )
    # people 1 and 2 are in A and C at hour 0, 1 in B at hour 1, 3 in D at hour 2
    lines = [
        {"zones": ["A", "C"], "slots": [0], "answer": 2},
        {"zones": ["A"], "slots": [0], "answer": 1},
        {"zones": ["A", "C"], "slots": [0], "except": ["B", "D"]},
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)))
    flags = ["--plan", plan, "--out", tmp_path / "own"]
    code, out, err = command("attack", "reconstruct", log, *flags, "--fewer-than", "3", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["check"]["share_right"] == told["check"]["share_right_of_visited"] == 1
    people = [each for each in told["differences"] if each["of"] == "people"]
    assert [each["size"] for each in people] == [2]  # 1 was at B, 3 at D
    code, out, _ = command("attack", "reconstruct", log, *flags)
    assert "100.0% of the counts are right" in out
    for bad, said in (
        ({"zones": ["Q"], "slots": [0], "answer": 1}, "log-cell"),
        ({"zones": ["A"], "slots": [99], "answer": 1}, "log-cell"),
        ({"zones": ["A"], "slots": [0], "except": ["John"]}, "log-except"),
    ):
        log.write_text(json.dumps(bad))
        code, _, err = command("attack", "reconstruct", log, *flags)
        assert (code, said in err) == (3, True), err


def test_the_demonstration_recovers_bits_only_without_noise(command):
    shares = []
    for more in ([], ["--epsilon", "1"]):
        flags = ["--demo", "--bits", "200", "--queries", "800", *more]
        code, out, _ = command("attack", "reconstruct", *flags, "--json")
        assert code == 0
        shares.append(json.loads(out)["share_recovered"])
    assert shares[0] == 1
    assert shares[1] < 0.65
    code, out, _ = command("attack", "reconstruct", *flags)
    assert "No adversary can expect more than 73.1%" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "log-empty"),
        ("{", "line 1 of the query log is not JSON"),
        ("[1]", "not an object"),
        ('{"zones": ["A"]}', "needs slots"),
        ('{"zones": [], "slots": [1]}', "needs zones"),
        ('{"zones": ["A"], "slots": [-1]}', "whole numbers from 0"),
        ('{"zones": ["A"], "slots": [1]}\n{"zones": ["A"], "slots": [1], "answer": "x"}', "line 2"),
        ('{"zones": ["A"], "slots": [1], "anwser": 3}', 'unknown key "anwser"'),
        ('{"zones": ["A"], "slots": [1], "answer": NaN}', "not finite"),
    ],
)
def test_bad_logs_are_named(tmp_path, command, text, said):
    path = tmp_path / "queries.jsonl"
    path.write_text(text)
    code, _, err = command("attack", "reconstruct", path, "--out", tmp_path / "owner")
    assert code == 3
    assert said in err
    assert not (tmp_path / "owner").exists()


def test_a_log_or_the_demonstration_is_needed(command, tmp_path):
    assert command("attack", "reconstruct")[0] == 2
    code, _, err = command("attack", "reconstruct", tmp_path / "none.jsonl")
    assert (code, "log-file" in err) == (3, True)


FLAGS = ("--zones", "--sites", "--start", "--end", "--time-zone")


def run(town, command, *more):
    given = [part for name in FLAGS for part in (name, town.flags[name])]
    return command("attack", "unicity", town.source, *given, "--out", town.folder / "own", *more)


def test_people_are_distinguished_by_their_points(town, command):
    # 1 and 2 share zone A in the first hour; 2 is also in B then; 3 is alone in D
    hours = [0, 1, 0, 0, 2]
    town.events(
        user=[1, 1, 2, 2, 3],
        time=[town.start + h * town.hour for h in hours],
        site=["S0", "S1", "S0", "S1", "S3"],
    )
    code, out, err = run(town, command, "--points", "1,2", "--slots-merged", "1,24", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    rows = {(row["minutes"], row["points"]): row for row in told["rows"]}
    assert told["users"] == 3
    assert rows[60, 2]["people"] == 2
    assert rows[60, 2]["unique"] == 2  # both points of 1, and both of 2, are theirs alone
    assert rows[1440, 2]["unique"] == 0  # over the day both were in A and in B
    assert rows[1440, 1]["unique"] == 1  # only 3
    table = pq.read_table(town.folder / "own" / "unicity.parquet")
    assert table.num_rows == 4
    code, out, _ = run(town, command, "--points", "2", "--side-m", "0,100000")
    assert code == 0
    assert "100% of people are unique by 2 known points" in out
    summary = json.loads((town.folder / "own" / "unicity-2.json").read_text())["summary"]
    assert (
        summary[0]
        == "By zones and 60 minutes, 2 known points: 100.0% are unique of the 2 people with as many points."
    )


def test_bad_resolutions_are_refused(town, command):
    for flags in (["--points", "0"], ["--side-m", "-1"], ["--slots-merged", "0"], ["--points", "x"]):
        code, _, err = run(town, command, *flags)
        assert code == 2
        assert "Traceback" not in err
    assert not (town.folder / "own").exists()
