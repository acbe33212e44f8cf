"""Nothing that depends on public input or on the size of the output fails after the reserve: every kind."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shoal.errors import ResourceError, ShoalError
from shoal.kinds.ask import Ask
from shoal.kinds.commute import build as commute_release
from shoal.kinds.density import build as density
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.density.prepare import prepare_density
from shoal.kinds.histogram import build as histogram
from shoal.kinds.histogram.plan import HistogramPlan
from shoal.kinds.histogram.prepare import prepare_histogram
from shoal.kinds.query import build as query
from shoal.kinds.query.plan import QueryPlan
from shoal.kinds.query.prepare import prepare_query
from shoal.kinds.run import run
from shoal.kinds.synthetic import build as synthetic
from shoal.kinds.synthetic.plan import SyntheticPlan
from shoal.kinds.synthetic.prepare import prepare_synthetic
from shoal.privacy.accounting import NANO
from shoal.privacy.ledger import open_ledger
from shoal.privacy.noise import OsNoise
from shoal.release import staging

DAY = "2024-03-04T"
POINTS = "user,time,lon,lat"
EVENTS = [f"u{i},{DAY}{8 + i % 4:02}:30:00Z,{2.303 + 0.004 * (i % 5)},48.805" for i in range(12)]
TRIPS = [
    f"u{i},{DAY}{8 + i % 4:02}:{minute:02}:00Z,{2.303 + 0.004 * (i % 5) + 0.0005 * minute},48.805"
    for i in range(9)
    for minute in range(0, 20, 4)
]
AT_SITES = [f"{i},{DAY}{8 + i % 4:02}:30:00Z,{'abc'[i % 3]}" for i in range(12)]
SITES = ["site,lon,lat", "a,2.305,48.805", "b,2.315,48.806", "c,2.325,48.815"]
BOX = (2.30, 48.80, 2.33, 48.82)
ZONES = """{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"zone":"a","name":"A"},
"geometry":{"type":"Polygon","coordinates":[[[2.30,48.80],[2.33,48.80],[2.33,48.82],[2.30,48.82],[2.30,48.80]]]}}]}"""


@dataclass(frozen=True)
class Kind:
    """How a kind of release is made of a tiny file, and which of its writers sees the noise."""

    name: str
    header: str
    rows: list[str]
    settings: dict[str, Any]
    module: Any
    writer: str

    def prepare(self, folder: Path, **more: Any) -> Any:
        (folder / "events.csv").write_text("\n".join([self.header, *self.rows, ""]))
        (folder / "sites.csv").write_text("\n".join([*SITES, ""]))
        (folder / "zones.geojson").write_text(ZONES)
        settings = {
            "population": "town",
            "epsilon": 1.0,
            "out": str(folder / "out"),
            "owner": str(folder / "owner"),
            "source": {"paths": (str(folder / "events.csv"),)},
            "window": {"start": f"{DAY}08:00", "end": f"{DAY}12:00", "time_zone": "UTC"},
            **{key: value(folder) if callable(value) else value for key, value in self.settings.items()},
            **more,
        }
        if self.name == "query":
            settings.pop("owner")
            out, asks = settings.pop("out"), (Ask(name="all"),)
            return prepare_query(QueryPlan(place=DensityPlan.from_settings(settings), asks=asks, out=out))
        if self.name == "density":
            return prepare_density(DensityPlan.from_settings(settings))
        if self.name == "histogram":
            return prepare_histogram(HistogramPlan.from_settings(settings))
        return prepare_synthetic(SyntheticPlan.from_settings(settings))

    def run(self, prepared: Any, ledger: Any) -> Path:
        return run(prepared, ledger).release


KINDS = {
    each.name: each
    for each in (
        Kind(
            *("density", POINTS, EVENTS),
            {"method": "gaussian", "delta": 1e-6, "space": {"box": BOX, "cell_m": 1000.0}},
            *(density, "write_density"),
        ),
        Kind(
            *("query", POINTS, EVENTS),
            {"method": "gaussian", "delta": 1e-6, "space": {"box": BOX, "cell_m": 1000.0}},
            *(query, "write_answers"),
        ),
        Kind(
            *("histogram", POINTS, TRIPS),
            {
                "method": "laplace",
                "trip_rule": {"gap_minutes": 20},
                "space": lambda folder: {"box": BOX, "cells": 4, "zones": str(folder / "zones.geojson")},
            },
            *(histogram, "write_histogram"),
        ),
        Kind(
            *("synthetic", POINTS, TRIPS),
            {
                "method": "markov",
                "count": 30,
                "trip_rule": {"gap_minutes": 20},
                "space": {"box": BOX, "cell_m": 500.0},
            },
            *(synthetic, "write_trips"),
        ),
        Kind(
            *("commute", "user,time,site", AT_SITES),
            {"method": "commute", "count": 30, "space": lambda folder: {"sites": str(folder / "sites.csv")}},
            *(commute_release, "write_events"),
        ),
    )
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def ledger(tmp_path):
    made = open_ledger(tmp_path / "ledger.sqlite")
    made.create("town", currency="rho", limit_nano=10**6 * NANO)
    return made


@contextmanager
def costs_nothing(ledger: Any, folder: Path, *errors: type[BaseException]):
    """What fails inside leaves no row in the ledger and nothing where the release would be."""
    before = ledger.state().population("town")
    with pytest.raises(errors or ShoalError) as found:
        yield found
    after = ledger.state().population("town")
    assert after.spent_nano == before.spent_nano == 0
    assert not (folder / "out").exists()
    assert not list(folder.glob(".out*"))


def full_disk(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_writer_that_fails_costs_nothing(kind, ledger, tmp_path, monkeypatch):
    prepared = kind.prepare(tmp_path)
    monkeypatch.setattr(kind.module, kind.writer, full_disk)
    with costs_nothing(ledger, tmp_path) as found:
        kind.run(prepared, ledger)
    assert found.value.code == "unwritable-folder"


def test_public_files_that_cannot_be_written_cost_nothing(kind, ledger, tmp_path, monkeypatch):
    prepared = kind.prepare(tmp_path)
    monkeypatch.setattr("shoal.kinds.run.recipient_readme", full_disk)
    with costs_nothing(ledger, tmp_path):
        kind.run(prepared, ledger)


def test_files_that_grow_too_large_cost_nothing(ledger, tmp_path):
    """The size of a file is limited, as by a quota: found out by writing, not by an estimate."""
    window = {"start": "2024-03-04", "end": "2024-04-04", "time_zone": "UTC", "slot_minutes": 15}
    prepared = KINDS["density"].prepare(tmp_path, window=window)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    try:
        with costs_nothing(ledger, tmp_path) as found:
            KINDS["density"].run(prepared, ledger)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert found.value.code == "unwritable-folder"


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_text_that_cannot_be_encoded_costs_nothing(kind, ledger, tmp_path, text):
    """As if a reader had let it pass."""
    prepared = kind.prepare(tmp_path)
    at = {
        "density": lambda: (prepared.geography.zones, "ids"),
        "query": lambda: (prepared.opened.geography.zones, "ids"),
        "histogram": lambda: (prepared.zones, "ids"),
        "commute": lambda: (prepared.sites, "ids"),
    }
    if kind.name == "synthetic":
        columns = {**prepared.source.columns, "user": text}
        object.__setattr__(prepared.source, "columns", columns)
    else:
        place, name = at[kind.name]()
        _ = place.digest()  # as it was read
        object.__setattr__(place, name, (text, *getattr(place, name)[1:]))
    with costs_nothing(ledger, tmp_path, ShoalError, UnicodeError, RuntimeError):  # DuckDB: bad_cast
        kind.run(prepared, ledger)


@pytest.mark.parametrize("name", ["x" * 300, "x" * 250])
def test_a_name_that_is_too_long_costs_nothing(kind, ledger, tmp_path, name):
    with costs_nothing(ledger, tmp_path):
        kind.run(kind.prepare(tmp_path, out=str(tmp_path / name)), ledger)


def test_a_place_that_is_a_file_costs_nothing(kind, ledger, tmp_path):
    (tmp_path / "file").touch()
    with costs_nothing(ledger, tmp_path):
        kind.run(kind.prepare(tmp_path, out=str(tmp_path / "file" / "out")), ledger)


ABSURD = {
    "density": {"epsilon": 1e-8, "ell": 10**6, "cap": 10**9, "method": "laplace", "delta": None},
    "query": {"epsilon": 1e-9, "method": "gaussian", "ell": 10**6},
    "histogram": {"epsilon": 1e-8, "trips_per_user": 10**9},
    "synthetic": {"epsilon": 1e-9, "trips_cap": 10**9},
    "commute": {"epsilon": 1e-9},
}


def test_noise_beyond_the_lattice_costs_nothing(kind, ledger, tmp_path, monkeypatch):
    """The scale that fits is lowered, so that ordinary settings are absurd ones."""
    monkeypatch.setattr("shoal.privacy.noise.LARGEST_SCALE", 1e-3)
    with costs_nothing(ledger, tmp_path) as found:
        kind.run(kind.prepare(tmp_path), ledger)
    assert found.value.code == "noise-scale"


@pytest.mark.parametrize("name", ABSURD)
def test_absurd_settings_are_refused_or_released(name, ledger, tmp_path):
    """Whatever they lead to, a release that fails is not paid for."""
    try:
        KINDS[name].run(KINDS[name].prepare(tmp_path, **ABSURD[name]), ledger)
    except ShoalError:
        assert ledger.state().population("town").spent_nano == 0


def test_a_disk_with_too_little_space_costs_nothing(kind, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "free_disk", lambda _: 10)
    with costs_nothing(ledger, tmp_path, ResourceError) as found:
        kind.run(kind.prepare(tmp_path), ledger)
    assert "10" in str(found.value) or "MB" in str(found.value)


def test_a_plan_larger_than_the_memory_costs_nothing(kind, ledger, tmp_path, monkeypatch):
    prepared = kind.prepare(tmp_path)
    monkeypatch.setattr(staging, "available_memory", lambda: prepared.needs().memory // 2)
    with costs_nothing(ledger, tmp_path, ResourceError) as found:
        kind.run(prepared, ledger)
    assert found.value.code == "machine-too-small"
    assert staging.show(prepared.needs().memory) in str(found.value)


def test_a_stored_release_needs_no_memory(kind, ledger, tmp_path, monkeypatch):
    made = kind.run(kind.prepare(tmp_path), ledger)
    prepared = kind.prepare(tmp_path)
    monkeypatch.setattr(staging, "available_memory", lambda: prepared.needs().memory // 2)
    assert kind.run(prepared, ledger) == made


def test_a_grid_far_beyond_the_memory_is_refused_before_its_cells_are_made(tmp_path, monkeypatch):
    """100,000 zones and 8,760 slots."""
    monkeypatch.setattr("shoal.space.geography.square_grid", None)
    space = {"box": (2.0, 48.6, 2.5, 49.1), "cell_m": 140.0}
    window = {"start": "2026-01-01", "end": "2027-01-01", "time_zone": "UTC"}
    with pytest.raises(ResourceError, match=r"needs about 1\d\d\.\d GB of memory; .* are available") as found:
        KINDS["density"].prepare(tmp_path, space=space, window=window)
    assert found.value.code == "machine-too-small"


def test_the_limit_of_the_process_is_seen():
    before = staging.available_memory()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (staging._mapped() + 10**9, hard))
    try:
        assert staging.available_memory() <= min(before + 10**8, 10**9)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_memory_that_ends_in_the_rehearsal_costs_nothing(kind, ledger, tmp_path, monkeypatch):
    def out_of_memory(*_: Any) -> None:
        raise MemoryError

    prepared = kind.prepare(tmp_path)
    monkeypatch.setattr(kind.module, kind.writer, out_of_memory)
    with costs_nothing(ledger, tmp_path, ResourceError) as found:
        kind.run(prepared, ledger)
    assert found.value.code == "out-of-memory"


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_what_fails_after_the_reserve_says_what_it_cost(kind, ledger, tmp_path, monkeypatch, error):
    def fail(*_: Any) -> None:
        raise error

    prepared = kind.prepare(tmp_path)
    for primitive in ("laplace", "gaussian", "run_key"):
        monkeypatch.setattr(OsNoise, primitive, fail)
    if kind.name == "query":
        monkeypatch.setattr(query.QueryTables, "exact", fail)
    with pytest.raises((ShoalError, error)) as found:
        kind.run(prepared, ledger)
    said = f"{found.value} {getattr(found.value, '__notes__', '')}"
    assert "recorded as spent" in said
    assert ledger.state().population("town").spent_nano > 0
    if error is MemoryError:
        assert found.value.code == "out-of-memory"


def test_rehearsed_numbers_are_not_the_released_ones(ledger, tmp_path, monkeypatch):
    """They are made of no data and a public seed: they would be worthless, and look real."""
    written = []
    before = density.write_density

    def keep(folder: Path, estimate: Any, *more: Any) -> None:
        written.append((folder.name, estimate.people.copy()))
        before(folder, estimate, *more)

    monkeypatch.setattr(density, "write_density", keep)
    KINDS["density"].run(KINDS["density"].prepare(tmp_path), ledger)
    (tried, one), (_, other) = written
    assert tried == "rehearsal"
    assert not np.array_equal(one, other)
