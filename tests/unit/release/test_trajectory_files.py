"""Records and keys on disk: sorted by random ids, private, and each key found by its records."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import OutputError
from shoal.release.trajectory_files import KEY, find_key, read_records, write_key, write_records
from shoal.stages.trajectories import Boxes


def test_records_are_written_in_the_order_of_their_ids(tmp_path):
    boxes = Boxes.of([0, 0, 2], [5, 9, 1], [6, 9, 4], [1] * 3, [2] * 3, [3] * 3, [4] * 3, records=3)
    write_records(tmp_path, boxes, np.array([7, 9, 3]))
    held = read_records(tmp_path)
    assert held["record"].tolist() == [3, 7, 7]
    assert held["t0"].tolist() == [1, 5, 9]
    assert held["record"].dtype == np.int64
    assert {held[name].dtype for name in ("t0", "t1", "x0", "x1", "y0", "y1")} == {np.dtype(np.int32)}


def test_a_key_is_private_and_found_by_its_records(tmp_path):
    ids = np.array([2, 1])
    path = write_key(tmp_path / KEY, pa.array(["a", "b"]), ids, records_sha256="one")
    assert path.stat().st_mode & 0o777 == 0o600
    assert pq.read_table(path).to_pylist() == [{"user": "a", "record": 2}, {"user": "b", "record": 1}]
    path.rename(tmp_path / "record_key-0123.parquet")
    write_key(tmp_path / KEY, pa.array([5, 6]), ids, records_sha256="two")
    (tmp_path / "record_key-broken.parquet").write_text("no")
    pq.write_table(pa.table({"user": [1]}), tmp_path / "record_key-other.parquet")
    assert find_key(tmp_path, "one") == tmp_path / "record_key-0123.parquet"
    assert find_key(tmp_path, "two") == tmp_path / KEY
    assert find_key(tmp_path, "three") is None
    assert find_key(tmp_path / "nowhere", "one") is None
    with pytest.raises(OutputError):
        write_key(tmp_path / "missing" / KEY, pa.array(["a"]), np.array([1]), records_sha256="one")
