"""`shoal attack recovery`: trajectories from raw counts, a defence and a release."""

import json
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

RECOVERY = ("attack", "recovery")


@pytest.fixture
def commuters(town):
    """Forty people over two days: half never leave S0, half work at S3 from 8 to 17."""
    rows = [
        (user, day * 24 + hour, "S3" if user < 20 and 8 <= hour < 17 else "S0")
        for user in range(40)
        for day in range(2)
        for hour in range(24)
    ]
    user, hour, site = zip(*rows, strict=True)
    town.events(user=list(user), time=[town.start + h * town.hour for h in hour], site=list(site))
    town.flags |= {"--end": "2026-03-04", "--population": None, "--epsilon": None, "--owner": None}
    return town


def write_release(folder, people, slots=48):
    """The data file of a density release over the zones A to D."""
    folder.mkdir()
    starts = [f"2026-03-{2 + i // 24:02d}T{i % 24:02d}:00+01:00" for i in range(slots)]
    pq.write_table(
        pa.table(
            {
                "zone": np.repeat(["A", "B", "C", "D"], slots),
                "slot": np.tile(np.arange(slots, dtype=np.int32), 4),
                "slot_start": starts * 4,
                "people": np.asarray(people, float).ravel(),
            }
        ),
        folder / "density.parquet",
    )
    return folder


def test_commuters_are_recovered_from_raw_counts_and_a_release(commuters, command, tmp_path):
    home, work = np.full(48, 40.0), np.zeros(48)
    hour = np.arange(48) % 24
    home[(hour >= 8) & (hour < 17)], work[(hour >= 8) & (hour < 17)] = 19.6, 20.4  # nearly the truth
    release = write_release(tmp_path / "published", [home, np.full(48, -3.0), np.zeros(48), work])
    commuters.flags["--out"] = tmp_path / "own"
    flags = ("--release", release, "--defence", "gaussian", "--seed", 1, "--known-points", 3, "--json")
    code, out, err = command(*commuters.arguments(*flags, words=RECOVERY))
    assert (code, err) == (0, "")
    told = json.loads(out)
    raw, released, protected = told["rows"]
    assert (raw["points_recovered"], raw["trajectories_recovered"], raw["away_recovered"]) == (1.0, 1.0, 1.0)
    assert raw["home_only_points"] == pytest.approx(1 - 20 * 18 / (40 * 48))
    assert raw["reidentified"] == 0.0  # twenty people with one trajectory
    assert (released["defence"], released["points_recovered"]) == ("release", 1.0)
    assert protected["defence"] == "gaussian"
    assert protected["points_recovered"] < 0.8
    assert len(told["summary"]) == 3
    people = pq.read_table(tmp_path / "own" / "recovery.parquet")
    assert people.num_rows == 3 * 40
    assert stat.S_IMODE((tmp_path / "own" / "recovery.json").stat().st_mode) == 0o600


def test_the_words_name_raw_and_protected_counts(commuters, command, tmp_path):
    commuters.flags["--out"] = tmp_path / "own"
    code, out, err = command(*commuters.arguments("--defence", "gaussian", "--seed", 1, words=RECOVERY))
    assert (code, err) == (0, "")
    assert out.startswith("From raw counts alone, 100% of all positions of people are recovered")
    assert "counts by gaussian at epsilon 1" in out


def test_what_does_not_fit_is_refused(commuters, command, tmp_path):
    commuters.flags["--out"] = tmp_path / "own"
    short = write_release(tmp_path / "short", np.ones((4, 24)), slots=24)
    other = write_release(tmp_path / "other", np.ones((4, 48)))
    table = pq.read_table(other / "density.parquet")
    renamed = pa.array(np.repeat(["A", "B", "C", "X"], 48))
    pq.write_table(table.set_column(0, "zone", renamed), other / "density.parquet")
    for flags, code in (
        (("--release", short), "attack-release-slots"),
        (("--release", other), "attack-release-zones"),
        (("--release", tmp_path / "nothing"), "attack-release"),
        (("--known-points", 0), "recovery-points"),
        (("--slot-minutes", 720), "recovery-slots"),
        (("--start", "2026-02-02", "--end", "2026-02-04"), "nobody"),
    ):
        exit_code, _, err = command(*commuters.arguments("--defence", "", *flags, words=RECOVERY))
        assert exit_code != 0, flags
        assert err.startswith(f"{code}:"), err
        assert "Traceback" not in err
