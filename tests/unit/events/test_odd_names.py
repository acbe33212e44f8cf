"""A file is read under the name it has, also where DuckDB would take the name for a pattern."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.events.readers import check_rows, scan
from shoal.events.source import open_source

TIME = 1_772_406_000_000_000


def write(path, users):
    path.parent.mkdir(exist_ok=True)
    time = pa.array([TIME] * len(users), pa.timestamp("us", "UTC"))
    table = pa.table({"user": users, "time": time, "lon": [2.3] * len(users), "lat": [48.8] * len(users)})
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        lines = [f"{user},2026-03-02T00:00:00Z,2.3,48.8" for user in users]
        path.write_text("\n".join(["user,time,lon,lat", *lines, ""]))
    return path


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
@pytest.mark.parametrize(
    ("folder", "name", "other"),
    [("w[1]", "a", "w1/a"), ("w", "a[1]", "w/a1"), ("w", "a*b", "w/axb"), ("w", "a?b", "w/axb")],
)
def test_rows_come_from_the_file_that_was_named(tmp_path, folder, name, other, ending):
    mine = write(tmp_path / folder / f"{name}{ending}", [1, 2, 3])
    write((tmp_path / other).with_suffix(ending), [7])
    source = open_source(str(mine))
    assert source.paths == (str(mine),)
    users = [user for batch in scan(source) for user in batch.column("user").to_pylist()]
    assert sorted(map(int, users)) == [1, 2, 3]
    assert check_rows(source).rows == 3
