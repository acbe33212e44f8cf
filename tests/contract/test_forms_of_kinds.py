"""The form of every kind on the page: accepted by the server, and priced as the command prices it."""

import asyncio

import httpx
import pytest
from tests.golden.record import world
from tests.loops import for_each

from shoal.kinds import KINDS
from shoal.privacy.ledger import open_ledger
from shoal.studio.app import unguarded
from shoal.studio.context import Studio
from shoal.studio.plans import Planner
from shoal.studio.reading import Reader
from shoal.studio.runs import Runs
from shoal.studio.sources import SourceShelf
from shoal.studio.workspace import Workspace

PRICE = {"epsilon": 1.0, "delta": 1e-6}
BOX = [5.0, 47.3, 5.03, 47.33]
FORMS = {
    "density": {"source": "events", **PRICE, "slot_minutes": 360},
    "histogram": {"source": "trips", "epsilon": 1.0, "box": BOX},
    "synthetic": {"source": "trips", **PRICE, "box": BOX},
    "commute": {"source": "events", "kind": "synthetic", **PRICE},
    "trajectories": {"source": "trips", "origin": [4.99, 47.29], "cell_m": 500.0, "k": 2},
}
NOT_ON_THE_PAGE = {"query"}


class Page:
    """Asks the application without a server."""

    def __init__(self, app, releases):
        self.app, self.releases, self.sources = app, releases, {}

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, form):
        return self.request("POST", path, form)

    def request(self, method, path, form=None):
        async def answer():
            here = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=here, base_url="http://127.0.0.1:8765/api") as client:
                return await client.request(method, path, json=form)

        return asyncio.run(answer())


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A server's application on the simulated city, files read in this process, with its two sources."""
    folder = tmp_path_factory.mktemp("forms")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOAL_LEDGER", str(folder / "ledger.sqlite"))
        work = Workspace.at(folder / "work")
        (work.root / "city").mkdir()
        world(work.root / "city")
        (work.root / "city" / "ledger.sqlite").unlink()
        open_ledger().create("golden", currency="rho", limit_nano=10**11)
        open_ledger().create("pure", currency="epsilon", limit_nano=10**10)
        shelf = SourceShelf(work)
        studio = Studio(work, "token", 8765, Runs(work), shelf, Planner(work, shelf), Reader(work.root))
        made = Page(unguarded(studio), work.root / "releases")
        made.sources = {name: register(made, name) for name in ("events", "trips")}
        yield made


def register(page, name):
    window = {"start": "2026-03-02", "end": "2026-03-04", "time_zone": "Europe/Paris"}
    form = {"name": name, "paths": [f"city/{name}.parquet"], "time_unit": "s", **window}
    if name == "events":
        form |= {"zones": "city/zones.geojson", "zone_id": "zone", "sites": "city/sites.csv"}
    answer = page.post("/sources", form)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def filled(page, kind, **more):
    """The form of a kind, filled in."""
    form = {"kind": kind, "population": "golden", "name": "week", **FORMS[kind], **more}
    return {**form, "source": page.sources[form["source"]]}


def planned(page, kind, **more):
    answer = page.post("/plan", filled(page, kind, **more))
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_every_kind_has_a_form_or_is_named_here(page):
    assert FORMS.keys() | NOT_ON_THE_PAGE == KINDS.keys()
    described = page.get("/openapi.json").json()["components"]["schemas"]["PlanForm"]["properties"]
    assert set(described["kind"]["enum"]) == FORMS.keys() - {"commute"}
    assert set().union(*FORMS.values()) <= described.keys()


@for_each("kind", FORMS)
def test_a_form_is_priced(page, kind):
    summary = planned(page, kind)
    assert summary["obstacles"] == []
    assert bool(summary["spends"]) == KINDS[kind].is_private
    assert not KINDS[kind].is_private or summary["budget"]["cost_nano"] > 0
    assert open_ledger().state().population("golden").spent_nano == 0


@for_each("kind", FORMS)
def test_what_stops_a_run_is_said_in_the_words_of_the_page(page, kind):
    (unknown,) = planned(page, kind, population="nobody")["obstacles"]
    (folder := page.releases / "week").mkdir(parents=True)
    (exists,) = planned(page, kind)["obstacles"]
    folder.rmdir()
    assert 'no population "nobody"' in unknown
    assert "exists" in exists
    if KINDS[kind].is_private:
        (pure,) = planned(page, kind, population="pure", **with_delta(kind))["obstacles"]
        assert "takes pure releases only" in pure
        (dear,) = planned(page, kind, epsilon=900.0, **with_delta(kind))["obstacles"]
        assert "left" in dear
    for obstacle in (unknown, exists):
        assert "--" not in obstacle


def with_delta(kind):
    return {"delta": 1e-6, "method": "prish"} if kind == "histogram" else {}


@for_each("kind", FORMS.keys() - {"commute"})
def test_the_form_offers_the_methods_and_defaults_of_the_plan(page, kind):
    state = page.get("/state").json()
    offered = [each["name"] for each in state["methods"][kind]]
    kinds = [each for each in FORMS if FORMS[each].get("kind", each) == kind]
    assert sorted(offered) == sorted(method for each in kinds for method in KINDS[each].methods)
    for each in kinds:
        for method in KINDS[each].methods:
            listed = next(one for one in state["methods"][kind] if one["name"] == method)
            delta = {"delta": 1e-6} if listed["with_delta"] else {"delta": None}
            assert planned(page, each, method=method, **delta)["public"]["method"] == method
    fields = state["settings"][kind]
    defaults = {name: each["default"] for name, each in fields.items() if each["default"] is not None}
    assert planned(page, kind, **defaults)["public"] == planned(page, kind)["public"] or (
        kind in ("density", "trajectories")  # the form above has a time slot and cells of its own
    )


@for_each(
    ("change", "field"),
    [
        ({"kind": "headcount"}, "kind"),
        ({"seed": 1}, "seed"),
        ({"out": "/tmp"}, "out"),
        ({"name": "../out"}, "name"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": None, "delta": "nan"}, "delta"),
    ],
)
def test_what_the_form_does_not_have_is_refused_for_every_kind(page, change, field):
    for kind in FORMS:
        if field in ("epsilon", "delta") and not KINDS[kind].is_private:
            continue  # no setting of its plan
        answer = page.post("/plan", {**filled(page, kind), **change})
        assert answer.status_code == 422
        assert field in answer.text
        assert "--" not in answer.json()["remedy"]
