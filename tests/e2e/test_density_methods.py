"""Every method at the edge of what it may be given: few zones, few slots, nobody, everybody in one place."""

import json

import numpy as np
import pytest
from tests.loops import tiers

from shoal.engine.engine import DuckEngine
from shoal.kinds.density.build import DensityBuild
from shoal.kinds.density.plan import METHODS, DensityPlan
from shoal.kinds.density.prepare import prepare_density
from shoal.kinds.density.published import read_density
from shoal.privacy.accounting import NANO, PURE
from shoal.privacy.noise import SeededNoise
from shoal.release.manifest import Manifest


def squeeze(town, case):
    """The tiny town with one thing at its edge; what a plan says beside its usual settings."""
    moments = [town.start + i * town.hour for i in range(24)]
    match case:
        case "one zone":
            town.zones(("A", town.square(0, 0, size=0.02)))
        case "one slot":
            return {"window": {"slot_minutes": 1440}}
        case "ell larger than slots":
            return {"ell": 1000}
        case "ell of one":
            return {"ell": 1}
        case "nobody":
            town.events(user=[1], time=[town.start - town.hour], site=["S0"])
        case "one user":
            town.events(user=[1] * 24, time=moments, site=["S0"] * 24)
        case "all in one cell":
            town.events(user=list(range(200)), time=[town.start] * 200, site=["S0"] * 200)
        case "zones without sites":
            (town.folder / "sites.csv").write_text("site,lon,lat\nS0,2.305,48.805\nS1,2.306,48.806\n")
            town.events(user=[1, 2], time=moments[:2], site=["S0", "S1"])
        case "sites without zones":
            town.zones(("A", town.square(0, 0)))
        case "points instead of sites":
            town.events(user=[1, 2, 3], time=moments[:3], lon=[2.305, 2.315, 2.305], lat=[48.805] * 3)
            return {"space": {"sites": None}}
        case "huge budget":
            return {"epsilon": 1000.0}
        case "tiny budget":
            return {"epsilon": 0.001}
    return {}


CASES = [
    "one zone",
    "one slot",
    "ell larger than slots",
    "ell of one",
    "nobody",
    "one user",
    "all in one cell",
    "zones without sites",
    "sites without zones",
    "points instead of sites",
    "huge budget",
    "tiny budget",
]


def in_every_run(method_and_case):
    """All edges with two methods; with the others, which share what follows the noise, the worst of them."""
    method, case = method_and_case
    return method in ("best", "laplace") or case in ("one zone", "nobody")


def settings(town, method, changes):
    given = {
        "population": "town",
        "epsilon": 1.0,
        "method": method,
        "users": 200,
        "source": {"paths": (str(town.source),)},
        "space": {"zones": str(town.folder / "zones.geojson"), "sites": str(town.folder / "sites.csv")},
        "window": {"start": "2026-03-02", "end": "2026-03-03", "time_zone": "Europe/Paris"},
    }
    for name, value in changes.items():
        given[name] = {**given[name], **value} if isinstance(value, dict) else value
    return given


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("method", "case"), tiers([(method, case) for method in METHODS for case in CASES], in_every_run)
)
def test_a_method_gives_something_valid(town, tmp_path, method, case):
    plan = DensityPlan.from_settings(settings(town, method, squeeze(town, case)))
    prepared = prepare_density(plan)
    folder = tmp_path / "built"
    folder.mkdir()
    build = DensityBuild(prepared, engine=DuckEngine(threads=1))
    build.public(folder, build.manifest())
    manifest = build(folder, SeededNoise(1))
    zones, slots = prepared.setting.zones, prepared.setting.slots
    made = read_density(folder, zones, slots)
    for values in (made.people, made.low, made.high):
        assert np.isfinite(values).all()
        assert (values >= 0).all()
    assert ((made.low <= made.people) & (made.people <= made.high)).all()
    assert Manifest.from_json(manifest.to_json()) == manifest
    spends = json.loads(manifest.to_json())["spends"]
    law = prepared.guarantee.law
    paid = sum(spend["epsilon" if law == PURE else "rho"] for spend in spends)
    assert paid == pytest.approx(prepared.mechanism.loss().amount(law) / NANO, rel=1e-9)
    assert (folder / "README.md").stat().st_size > 1000
