"""Damaged ledgers: noticed, or what is shown is true."""

import pytest
from tests.fuzz.run import run

from shoal.privacy.ledger import sqlite


@pytest.mark.parametrize("count", [300, pytest.param(2000, marks=pytest.mark.exhaustive)])
def test_damages_never_hide_a_spend(count: int) -> None:
    assert run("ledger", count) == {}


def test_a_ledger_without_its_witness_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("ledger", 1) == {}  # its history is made with the checks on
    monkeypatch.setattr(sqlite, "_lost", lambda *_: [])
    assert run("ledger", 60)
