"""Text of the owner's in public files acts on nothing: no formula, no markup, no heading."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow.parquet as pq
import pytest
import shapely
from tests.loops import for_each

from shoal.kinds.density.published import read_density, write_density
from shoal.release.readme import as_plain
from shoal.release.trip_files import TripColumns
from shoal.space.clock import Clock
from shoal.space.places import Zones
from shoal.stages.noisy import DensityEstimate


def test_formulas_in_ids_are_text_in_csv_and_themselves_in_parquet(tmp_path):
    ids = ("=1+1", "+a", "-b", "@c", "plain", "a=b")
    zones = Zones(ids=ids, names=ids, geometry=np.array([shapely.box(k, 0, k + 1, 1) for k in range(6)]))
    clock = Clock(start="2026-03-02", end="2026-03-03", time_zone="UTC", slot_minutes=720)
    people = np.full((6, 2), -0.5)
    write_density(tmp_path, DensityEstimate(people=people, low=people, high=people), zones, clock)
    with open(tmp_path / "density.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["zone"] for row in rows[::2]] == ["'=1+1", "'+a", "'-b", "'@c", "plain", "a=b"]
    assert {row["people"] for row in rows} == {"-0.5"}  # numbers stay numbers
    assert pq.read_table(tmp_path / "density.parquet")["zone"].to_pylist()[::2] == list(ids)
    assert read_density(tmp_path, 6, 2).people.shape == (6, 2)


@for_each(
    ("text", "shown"),
    [
        ("paris-2026", "paris-2026"),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ("[a](http://b)", "\\[a\\](http://b)"),
        ("a\n# b", "a \\# b"),
        ("`a` | *b*", "\\`a\\` \\| \\*b\\*"),
    ],
)
def test_markup_is_escaped(text, shown):
    assert as_plain(text) == shown


def test_columns_named_like_formulas_and_other_tables_are_not_taken(tmp_path):
    assert TripColumns.like({"user": "=cmd"}, planar=False).user == "user"
    assert TripColumns.like({"user": "imsi"}, planar=False).user == "imsi"
    from shoal.errors import SourceError

    (tmp_path / "density.parquet").write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(SourceError, match="not-a-density"):
        read_density(tmp_path, 6, 2)
