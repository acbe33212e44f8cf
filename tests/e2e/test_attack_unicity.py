"""`shoal attack unicity` on the tiny town, whose answer can be seen by eye."""

import json

import pyarrow.parquet as pq

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
