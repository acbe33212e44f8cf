"""Tampered metadata of published files is refused with a clear error, never an internal one."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from shoal.errors import SourceError
from shoal.release.histogram_files import read_histogram
from shoal.release.trip_files import read_synthetic

RELEASES = Path(__file__).parents[2] / "golden" / "v1" / "releases"
HUGE = 10**30


@pytest.mark.parametrize(
    "change",
    [
        {"columns": HUGE}, {"columns": 1e999}, {"rows": -1}, {"rows": 4096, "columns": 4096}, {"box": None},
        {"box": [0, 0, 1e300, 1e300]}, {"box": [0, 0, 1, HUGE**20]}, {"trips": None}, {"trips": "many"},
        {"trips": float("nan")}, {"columns": [1]}, {"planar": None, "columns": {}},
    ],
)  # fmt: skip
def test_a_histogram_with_another_description(tmp_path, change):
    table = pq.read_table(RELEASES / "histogram-boxes" / "histogram.parquet")
    about = json.loads(table.schema.metadata[b"shoal.histogram"]) | change
    path = tmp_path / "histogram.parquet"
    pq.write_table(table.replace_schema_metadata({b"shoal.histogram": json.dumps(about)}), path)
    with pytest.raises(SourceError, match="not-a-histogram"):
        read_histogram(path)


@pytest.mark.parametrize("content", [b"[1, 2]", b"\xff", b"[" * 100_000, b"7"])
def test_a_histogram_beside_a_manifest_that_is_none(tmp_path, content):
    (tmp_path / "histogram.parquet").write_bytes(
        (RELEASES / "histogram-boxes" / "histogram.parquet").read_bytes()
    )
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(SourceError, match="not-a-release"):
        read_histogram(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"grid": None},
        {"step_s": "x"},
        {"trips": 1e999},
        {"time": 5},
        {"time": "user"},
        {"grid": {"box": HUGE}},
    ],
)
def test_trips_with_another_description(tmp_path, change):
    table = pq.read_table(RELEASES / "synthetic-bridges" / "trips.parquet")
    about = json.loads(table.schema.metadata[b"shoal.synthetic"]) | change
    path = tmp_path / "trips.parquet"
    pq.write_table(table.replace_schema_metadata({b"shoal.synthetic": json.dumps(about)}), path)
    with pytest.raises(SourceError, match="not-synthetic"):
        list(read_synthetic(path).batches())
