"""The command that verifies a trajectory release: files in, a verdict and an exit code out."""

import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from shoal.cli.trajectories import verify
from shoal.errors import OutputError, PlanError, ShoalError, SourceError
from shoal.kinds.trajectories.verify import verify_trajectories

START = datetime(2026, 3, 2, tzinfo=UTC)
MANIFEST = {
    "public": {
        "k": 2,
        "tau_minutes": 10,
        "epoch_minutes": 10,
        "records": 4,
        "lattice": {
            "start": START.isoformat(),
            "steps": 60,
            "minutes": 1,
            "origin": [5.0, 50.0],
            "metres": 100.0,
            "metres_per_unit": [71_600.0, 110_574.0],
            "coordinates": "longitude, latitude",
        },
    }
}
# user, minute, cell x, cell y: two pairs, each met once; "d" also was there before the window
SAMPLES = [("a", 5, 2, 3), ("b", 7, 4, 3), ("c", 30, 8, 8), ("d", 33, 8, 9), ("d", -9, 1, 1)]
BOXES = [(11, 5, 7, 2, 4, 3, 3), (12, 5, 7, 2, 4, 3, 3), (13, 30, 33, 8, 8, 8, 9), (14, 30, 33, 8, 8, 8, 9)]
KEY = {"a": 12, "b": 11, "c": 14, "d": 13}


def place(cell_x, cell_y):
    """The middle of a cell."""
    return 5.0 + (cell_x + 0.5) * 100 / 71_600, 50.0 + (cell_y + 0.5) * 100 / 110_574


@pytest.fixture
def release(tmp_path):
    def write(samples=SAMPLES, boxes=BOXES, key=KEY, manifest=MANIFEST):
        times = [
            int(START.timestamp() * 1e6) + minute * 60_000_000 + 59_000_000 for _, minute, _, _ in samples
        ]
        places = [place(x, y) for _, _, x, y in samples]
        raw = {
            "user": [user for user, *_ in samples],
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "lon": [lon for lon, _ in places],
            "lat": [lat for _, lat in places],
        }
        pq.write_table(pa.table(raw), tmp_path / "raw.parquet")
        folder = tmp_path / "release"
        folder.mkdir(exist_ok=True)
        columns = np.array(boxes, np.int64).reshape(-1, 7).T
        names = ("record", "t0", "t1", "x0", "x1", "y0", "y1")
        table = {
            name: pa.array(column, pa.int64() if name == "record" else pa.int32())
            for name, column in zip(names, columns, strict=True)
        }
        pq.write_table(pa.table(table), folder / "records.parquet")
        (folder / "manifest.json").write_text(json.dumps(manifest))
        pq.write_table(
            pa.table({"user": list(key), "record": pa.array(key.values(), pa.int64())}),
            tmp_path / "key.parquet",
        )
        return tmp_path / "raw.parquet", folder, tmp_path / "key.parquet"

    return write


def run(paths, *more):
    raw, folder, key = map(str, paths)
    return CliRunner().invoke(verify, [raw, folder, "--key", key, *more])


def test_a_sound_release_passes_in_json_and_in_words(release):
    done = run(release(), "--json")
    told = json.loads(done.output)
    assert done.exit_code == 0
    assert told["passed"]
    assert (told["users"], told["samples"], told["boxes"], told["violations"]) == (4, 4, 4, 0)
    assert told["pairs_checked"] == 4 * 70
    assert told["measured"]["candidates_quartiles"] == [2, 2, 2]
    assert "no composition" in told["measured"]["limits"]
    assert "epsilon" not in done.output
    done = run(release())
    assert done.exit_code == 0
    assert done.output.startswith("PASSED  k = 2, tau = 10 minutes")
    assert "no protection beyond the stated adversary" in done.output


def test_a_violation_is_shown_with_user_time_and_reason(release):
    """The second pair's record 13 loses its last cell: it no longer holds what 14's person did."""
    done = run(release(boxes=[*BOXES[:2], (13, 33, 33, 8, 8, 8, 9), BOXES[3]]))
    assert done.exit_code == 1
    assert "FAILED" in done.output
    assert "user c, window from minute" in done.output
    assert "record 13: it has no box at step 30" in done.output
    told = json.loads(run(release(boxes=[*BOXES[:2], (13, 33, 33, 8, 8, 8, 9), BOXES[3]]), "--json").output)
    example = next(each for each in told["examples"] if each["user"] == "c")
    step = example["start_step"]
    assert example["start_time"] == f"2026-03-02T00:{step:02d}:00+00:00"


def test_other_claims_can_be_checked_and_edges_belong_to_the_upper_cell(release):
    assert run(release(), "--k", "3").exit_code == 1
    assert run(release(), "--tau-minutes", "60").exit_code == 0
    with pytest.raises(PlanError, match="claim-steps"):
        verify_trajectories(*release(), tau_minutes=0)
    # floor, as the manifest says: one cell further is outside the box.
    assert verify_trajectories(*release()).passed
    moved = [("a", 5, 1.5, 3) if user == "a" else (user, *rest) for user, *rest in SAMPLES]
    assert verify_trajectories(*release(samples=moved)).passed
    moved = [("a", 5, 1.49, 3) if user == "a" else (user, *rest) for user, *rest in SAMPLES]
    assert not verify_trajectories(*release(samples=moved)).passed


def test_swapped_keys_and_users_outside_them_fail(release):
    done = run(release(key={"a": 13, "b": 11, "c": 14, "d": 12}), "--json")
    assert done.exit_code == 1
    assert json.loads(done.output)["structure"]["boxes_without_own_sample"] == 2
    found = verify_trajectories(*release(key={"a": 12, "b": 11, "c": 14}))
    assert found.verified.structure["users_without_key"] == 1
    assert found.verified.structure["records_without_key"] == 1
    assert found.verified.structure["records_not_as_said"] == 1
    assert not found.passed


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda raw, folder, key: (folder / "manifest.json").unlink(), OutputError),
        (lambda raw, folder, key: (folder / "manifest.json").write_text("{}"), OutputError),
        (lambda raw, folder, key: (folder / "records.parquet").write_text("no"), OutputError),
        (lambda raw, folder, key: key.unlink(), SourceError),
        (lambda raw, folder, key: pq.write_table(pa.table({"user": [1]}), key), SourceError),
        (lambda raw, folder, key: raw.unlink(), ShoalError),
    ],
)
def test_bad_files_are_clear_errors(release, spoil, error):
    paths = release()
    spoil(*paths)
    with pytest.raises(error):
        verify_trajectories(*paths)
