"""Records and keys on disk: sorted by random ids, private, and each key found by its records."""

from datetime import UTC, datetime

import geopandas
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import OutputError
from shoal.kinds.trajectories.published import (
    KEY,
    find_key,
    misplaced,
    read_records,
    write_key,
    write_records,
)
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes

LATTICE = Lattice(
    start=datetime(2026, 3, 2, tzinfo=UTC), steps=60, origin=(5.0, 47.0), minutes=10, metres=500.0
)


def test_records_are_written_in_the_order_of_their_ids(tmp_path):
    boxes = Boxes.of([0, 0, 2], [5, 9, 1], [6, 9, 4], [1] * 3, [2] * 3, [3] * 3, [4] * 3, records=3)
    write_records(tmp_path, boxes, np.array([7, 9, 3]), LATTICE)
    held = read_records(tmp_path)
    assert held["record"].tolist() == [3, 7, 7]
    assert held["t0"].tolist() == [1, 5, 9]
    assert held["record"].dtype == np.int64
    assert {held[name].dtype for name in ("t0", "t1", "x0", "x1", "y0", "y1")} == {np.dtype(np.int32)}


def test_records_have_times_and_polygons_that_others_can_read(tmp_path):
    boxes = Boxes.of([0, 1], [5, 9], [6, 9], [1, 0], [2, 0], [3, 0], [4, 0], records=2)
    write_records(tmp_path, boxes, np.array([2, 1]), LATTICE)
    frame = geopandas.read_parquet(tmp_path / "records.parquet")
    first, second = frame.geometry.to_crs(32631)  # UTM 31N, which knows nothing of our two constants
    assert abs(first.area / 500**2 - 1) < 0.01
    assert abs(second.area / 1000**2 - 1) < 0.01
    assert frame["start"].tolist()[1] == datetime(2026, 3, 2, 0, 50, tzinfo=UTC)
    assert frame["end"].tolist()[1] == datetime(2026, 3, 2, 1, 10, tzinfo=UTC)
    text = pandas.read_csv(tmp_path / "records.csv", parse_dates=["start", "end"])
    assert text.equals(pandas.DataFrame(frame.drop(columns="geometry")).astype(text.dtypes))
    assert not misplaced(tmp_path, read_records(tmp_path), LATTICE)


@pytest.mark.parametrize("column", ["start", "east", "geometry", "csv"])
def test_a_moved_box_is_noticed(tmp_path, column):
    boxes = Boxes.of([0, 1], [5, 9], [6, 9], [1, 0], [2, 0], [3, 0], [4, 0], records=2)
    write_records(tmp_path, boxes, np.array([2, 1]), LATTICE)
    if column == "csv":
        path = tmp_path / "records.csv"
        path.write_text(path.read_text().replace(",5,", ",6,", 1))
    else:
        table = pq.read_table(tmp_path / "records.parquet")
        at = table.schema.get_field_index(column)
        swapped = table[column].take(pa.array([1, 0]))
        pq.write_table(table.set_column(at, table.schema.field(at), swapped), tmp_path / "records.parquet")
    assert misplaced(tmp_path, read_records(tmp_path), LATTICE)


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
