"""The API under random requests by its own description: no answer is ever a 5xx.

`make test` asks 8 times per operation, `make test-all` SHOAL_STUDIO_EXAMPLES times: 1,000 for the figure in
docs/results/studio.md.
"""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings, strategies
from tests.loops import tiers

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import simulate_city
from shoal.kinds.run import run
from shoal.privacy.ledger import open_ledger
from shoal.release.verify import sha256_file
from shoal.studio.app import unguarded
from shoal.studio.context import Studio
from shoal.studio.runs import Runs
from shoal.studio.sources import SourceCard
from shoal.studio.workspace import Workspace

EXAMPLES = int(os.environ.get("SHOAL_STUDIO_EXAMPLES", "25"))


class Waiting(Runs):
    """Runs that are asked for and never start: what is tried here is the server."""

    def _next(self):
        for waiting in list(self._live):
            self.cancel(waiting)


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A server with a source, a population and a run, and their names, so that requests get past the door."""
    folder = tmp_path_factory.mktemp("fuzz")
    before = os.environ.get("SHOAL_LEDGER")
    os.environ["SHOAL_LEDGER"] = str(folder / "ledger.sqlite")
    open_ledger().create("town", currency="rho", limit_nano=10**9, delta=1e-6)
    work = Workspace.at(folder / "work")
    preset = replace(preset_named("town"), users=100, weeks=1, zones=10, sites=12, what=("events",))
    simulate_city(preset, work.root / "city", seed=1, parts=1)
    studio = Studio.at(work, "token", 8765, Waiting(work))
    card = SourceCard(
        id="",
        name="town",
        source={"paths": ["city/events/*.parquet"]},
        space={"zones": "city/zones.geojson", "sites": "city/sites.csv"},
        window={"start": "2026-03-02", "end": "2026-03-09", "time_zone": "Europe/Paris"},
        population="town",
        users=100,
    )
    source = studio.shelf.register(card).id
    check = studio.runs.start({"do": "check", "source": source}, "check")["id"]
    form = {"kind": "density", "source": source, "population": "town", "name": "week", "epsilon": 1.0}
    prepared = studio.planner.prepared(form, studio.planner.settings(form))
    release = run(prepared, open_ledger()).release
    names = {
        "source": source,
        "run": check,
        "population": "town",
        "release": sha256_file(release / "manifest.json"),
    }
    yield unguarded(studio), names
    if before is None:
        os.environ.pop("SHOAL_LEDGER")
    else:
        os.environ["SHOAL_LEDGER"] = before


def operations():
    """Method and path of everything the server describes; needs no folder."""
    empty = unguarded(Studio.at(Workspace(Path("nowhere")), "token", 8765))
    paths = empty.openapi()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


@pytest.fixture(scope="module")
def schema(known):
    return schemathesis.openapi.from_asgi("/api/openapi.json", known[0])


@pytest.mark.parametrize("examples", tiers([8, EXAMPLES], (8,)))
@pytest.mark.parametrize(("method", "path"), operations(), ids=str)
def test_no_request_breaks_the_server(method, path, examples, schema, known):
    """Half of the requests name things that exist."""
    names = known[1]

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=schema[path][method].as_strategy(), real=strategies.booleans())
    def ask(case, real):
        if real:
            for name in names.keys() & (case.path_parameters or {}).keys():
                case.path_parameters[name] = names[name]
            if isinstance(case.body, dict):
                place = case.body["plan"] if isinstance(case.body.get("plan"), dict) else case.body
                place |= {name: names[name] for name in names.keys() & place.keys()}
        assert case.call().status_code < 500

    ask()


def test_the_description_names_every_operation(known):
    """A view without its operations would be tested by nobody."""
    paths = known[0].openapi()["paths"]
    assert len(operations()) >= 25
    assert {"/api/plan", "/api/runs", "/api/attacks", "/api/ledger", "/api/evidence", "/api/sources"} <= set(
        paths
    )
