"""Spends of a mechanism: within the budget, and as a manifest lists them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from shoal.errors import GuaranteeError
from shoal.privacy.accounting import NANO, Loss, compose
from shoal.privacy.budget import Budget


def check_spends(mechanism: Spending, budget: Budget) -> None:
    """The named spends must add up to the loss, and the loss must stay within the budget."""
    loss = mechanism.loss()
    listed = compose(spend for _, spend in mechanism.spends())
    within, _ = Budget(budget.left, budget.pure).take("whole", 1)
    if not within.covers(loss):
        raise GuaranteeError("over-budget", "the noise is too small for the privacy that was asked for.")
    if listed != loss:
        raise GuaranteeError("spends", "the spends of the mechanism do not add up to its loss.")


class Spending(Protocol):
    """A mechanism, as its price is told."""

    @property
    def name(self) -> str: ...

    def loss(self) -> Loss: ...

    def spends(self) -> Iterable[tuple[str, Loss]]: ...


def spends_of(mechanism: Spending, pays_for: dict[str, str]) -> list[dict]:
    """Each named step with what it buys and what it costs, in order."""
    listed = []
    for name, loss in mechanism.spends():
        spend = {
            "name": name,
            "pays_for": pays_for.get(name, ""),
            "mechanism": mechanism.name,
            "rho": loss.rho,
        }
        if loss.pure_epsilon_nano is not None:
            spend["epsilon"] = loss.pure_epsilon_nano / NANO
        listed.append(spend)
    return listed
