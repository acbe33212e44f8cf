"""What the ledger is charged for queries is what their manifests list, also within one session."""

import pytest

from shoal.auditing.end_to_end.driver import POPULATION, prepared_of
from shoal.auditing.end_to_end.worlds import event_world
from shoal.kinds.query.build import QuerySession
from shoal.privacy.accounting import GDP, rho_for
from shoal.privacy.ledger import open_ledger
from shoal.release.manifest import MANIFEST, Manifest
from shoal.release.price import spent_loss

ASKS = ([{}], [{}, {"slots": [0, 1]}], [{"slots": [2]}])


@pytest.mark.parametrize(
    ("method", "currency"),
    [
        *(("laplace", each) for each in ("epsilon", "rho", "pots")),
        *((method, each) for method in ("gaussian", "weights") for each in ("rho", "pots")),
    ],
)
def test_every_ask_of_a_session_is_charged_what_its_manifest_lists(method, currency, tmp_path, monkeypatch):
    world = event_world("query", method, 3, 1)
    settings = {**world.write(world.table, tmp_path), "population": POPULATION}
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))
    if currency == "pots":
        pots = {"gaussian": rho_for(10.0, 1e-6, GDP), "pure": 10**10}
        ledger.create(POPULATION, pots=pots, delta=1e-6)
    else:
        ledger.create(POPULATION, currency=currency, limit_nano=10**12)

    def pot():
        name = "one" if currency != "pots" else "pure" if method == "laplace" else "gaussian"
        return ledger.state().population(POPULATION).pots[name]

    def prepared(number):
        asked = {"asks": ASKS[number], "epsilon": (0.1, 0.7, 0.2)[number], "out": str(tmp_path / f"{number}")}
        return prepared_of("query", {**settings, **asked})

    session, charged = QuerySession(prepared(0), ledger, engine=world.engine(tmp_path)), []
    for number in range(len(ASKS)):
        before = pot().spent_nano
        made = session.ask(prepared(number))
        charged.append(pot().spent_nano - before)
        spent = spent_loss(Manifest.from_json((made.release / MANIFEST).read_text("utf-8")))
        assert spent is not None
        assert charged[-1] == pot().cost(spent)
    assert charged[1] > max(charged[0], charged[2])
