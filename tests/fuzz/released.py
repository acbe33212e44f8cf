"""Plans, queries, manifests and the published files of releases under mutation."""

import functools
import json
import random
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.fuzz.mutate import as_json, bytes_of, json_of, junk, no_internal_error, place, written

from shoal.kinds.ask import read_asks
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.density.published import read_density
from shoal.kinds.histogram.plan import HistogramPlan
from shoal.kinds.plan import read_plan
from shoal.kinds.synthetic.plan import SyntheticPlan
from shoal.kinds.trajectories.plan import TrajectoryPlan
from shoal.release.histogram_files import read_histogram
from shoal.release.manifest import Manifest
from shoal.release.trip_files import read_synthetic
from shoal.release.verify import check_release
from shoal.space.clock import Clock
from shoal.space.places import read_zones

GOLDEN = Path(__file__).parents[1] / "golden" / "v1"
KINDS = (DensityPlan, HistogramPlan, SyntheticPlan, TrajectoryPlan)


@functools.cache
def plans() -> tuple[dict, ...]:
    found = sorted((GOLDEN / "plans").rglob("*.toml"))
    assert found
    return tuple(tomllib.loads(path.read_text("utf-8")) for path in found)


def fuzz_plan(rng: random.Random) -> None:
    settings = json_of(rng, rng.choice(plans()), 3)
    lines: list[str] = []
    _toml(settings if isinstance(settings, dict) else {"a": settings}, "", lines)
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        content = bytes_of(rng, content, 2)
    if rng.random() < 0.02:
        content += b"\nz = " + b"9" * 5000
    path = written("plan.toml", content)

    def read() -> None:
        found = read_plan(path)
        for kind in rng.sample(KINDS, 2):
            no_internal_error(lambda kind=kind: kind.from_settings(found))

    no_internal_error(read)


def _toml(table: dict, prefix: str, lines: list[str]) -> None:
    plain = {name: value for name, value in table.items() if not isinstance(value, dict)}
    lines += [f"{json.dumps(name)} = {_value(value)}" for name, value in plain.items()]
    for name, value in table.items():
        if isinstance(value, dict):
            lines.append(f"[{prefix}{json.dumps(name)}]")
            _toml(value, f"{prefix}{json.dumps(name)}.", lines)


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, float):
        return {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(
            json.dumps(value), json.dumps(value)
        )
    return json.dumps(str(value)) if value is None or not isinstance(value, str | int) else json.dumps(value)


@functools.cache
def world():
    return read_zones(GOLDEN / "zones.geojson", holes="allow"), Clock(
        start="2026-03-02", end="2026-03-09", time_zone="Europe/Paris", slot_minutes=60
    )


def fuzz_queries(rng: random.Random) -> None:
    zones, clock = world()
    known = [
        json.loads(line)
        for line in (GOLDEN / "queries.jsonl").read_text("utf-8").splitlines()
        if line.strip()
    ]
    known.append({"name": "q", "bbox": [5.0, 47.0, 5.1, 47.1], "slots": [1, 2]})
    known.append({"zones": [zones.ids[0]], "from": "2026-03-02T07:00", "to": "2026-03-02T09:00"})
    lines = [as_json(rng, json_of(rng, rng.choice(known), 3)) for _ in range(rng.randint(1, 3))]
    path = written("q.jsonl", b"\n".join(lines))

    def read() -> None:
        for ask in read_asks(path):
            no_internal_error(lambda ask=ask: ask.question(zones, clock))

    no_internal_error(read)


@functools.cache
def releases() -> tuple[Path, ...]:
    found = sorted(path.parent for path in (GOLDEN / "releases").rglob("manifest.json"))
    assert len(found) > 5
    return tuple(found)


def fuzz_manifest(rng: random.Random) -> None:
    """Read as text, and now and then verified in a copy of its folder."""
    release = rng.choice(releases())
    plain = json_of(rng, json.loads((release / "manifest.json").read_text("utf-8")), 3)
    text = json.dumps(plain, indent=2, ensure_ascii=False) + "\n"
    if rng.random() < 0.2:
        text = bytes_of(rng, text.encode("utf-8", "surrogatepass"), 2).decode("utf-8", "replace")
    no_internal_error(lambda: Manifest.from_json(text))
    if rng.random() < 0.2:
        folder = _copy(release)
        (folder / "manifest.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        no_internal_error(lambda: check_release(folder))


def _copy(release: Path) -> Path:
    folder = place() / "release"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(release, folder)
    return folder


def fuzz_published(rng: random.Random) -> None:
    """Tables of a release with damaged bytes, other columns or forged metadata."""
    tables = [path for path in sorted((GOLDEN / "releases").rglob("*.parquet")) if path.name in _READERS]
    source = rng.choice(tables)
    path = place() / source.name
    if rng.random() < 0.4:
        path.write_bytes(bytes_of(rng, source.read_bytes()))
    else:
        path.write_bytes(source.read_bytes())
        _forge(rng, path)
    no_internal_error(lambda: _READERS[source.name](path))


def _forge(rng: random.Random, path: Path) -> None:
    table = pq.read_table(path)
    about = {
        name: value for name, value in (table.schema.metadata or {}).items() if name.startswith(b"shoal")
    }
    for name, value in about.items():
        about[name] = as_json(rng, json_of(rng, json.loads(value), 2))
    if rng.random() < 0.4 and table.num_columns:
        name = rng.choice(table.column_names)
        at = table.column_names.index(name)
        if rng.random() < 0.5:
            table = table.remove_column(at)
        else:
            other = pa.array([junk_text(rng)] * table.num_rows)
            table = table.set_column(
                at, name, rng.choice((other, pa.nulls(table.num_rows), pa.array(np.full(table.num_rows, -7))))
            )
    if rng.random() < 0.2:
        table = table.slice(0, rng.randrange(table.num_rows + 1))
    pq.write_table(table.replace_schema_metadata(about), path)


def junk_text(rng: random.Random) -> str:
    return str(junk(rng)).encode("utf-8", "replace").decode()


def _histogram(path: Path) -> None:
    found = read_histogram(path)
    found.answer([found.grid.box])
    float(found.trips)


def _synthetic(path: Path) -> None:
    for batch in read_synthetic(path).batches():
        batch.validate()


_READERS = {
    "histogram.parquet": _histogram,
    "trips.parquet": _synthetic,
    "density.parquet": lambda path: read_density(path.parent, 12, 168),
}
