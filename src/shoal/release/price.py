"""What a manifest promises against what it says was spent, and what the ledger was charged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shoal.errors import GuaranteeError
from shoal.privacy.accounting import (
    GDP,
    NANO,
    PURE,
    TAU,
    TAU_UNIT,
    ZCDP,
    Loss,
    compose,
    delta_for,
    epsilon_for,
    slack_fits,
)
from shoal.privacy.guarantee import PROMISE_VERSION, in_full, promise
from shoal.release.manifest import Manifest, is_amount, law_of

_ROUNDING = 1e-9  # of floating point in the conversion; far below any digit that is shown


def price_problems(manifest: Manifest) -> list[str]:
    """Where a differentially private manifest promises more than its own numbers allow."""
    if not manifest.is_private:
        return []
    guarantee, problems = manifest.guarantee, []
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    version = guarantee.get("promise_version", 1)
    if "promise_version" in guarantee and (type(version) is not int or version != PROMISE_VERSION):
        problems.append("the version of its promise is not one that this version of shoal knows.")
    elif manifest.promise != promise(epsilon, delta, guarantee["unit"], version):
        problems.append("the promise does not say the epsilon, delta and unit of the guarantee.")
    spent, law = spent_loss(manifest), law_of(guarantee)
    if spent is None:
        return [*problems, "its spends must be listed, each with a rho or an epsilon above 0."]
    if law == PURE and (delta or spent.law != PURE):
        return [*problems, "it is called pure, and has a delta or a spend without an epsilon."]
    listed = spent.rho_nano if law == PURE else spent.amount(law)
    rho_nano = _nano(guarantee["rho"]) if "rho" in guarantee else listed
    if listed != rho_nano:
        more = "more" if listed > rho_nano else "less"
        problems.append(f"the spends add up to {more} than the rho of the guarantee.")
    if any(_more_than_pure(spend, law) for spend in manifest.spends):
        problems.append("a spend has a rho above that of its epsilon.")
    if law == GDP and spent.tau < TAU:
        problems.append("it leaves the slack of Gaussian noise out.")
    whole = replace(spent, **{_FIELD[law]: max(rho_nano, listed)})
    if not covers(guarantee, whole):
        problems.append(
            f"epsilon = {in_full(epsilon)} is below what was spent: {_allowed(whole, delta, law)}."
        )
    return problems


_FIELD = {PURE: "rho_nano", ZCDP: "rho_nano", GDP: "gdp_nano"}  # of a loss, that is the rho of a law


def check_charged(manifest: Manifest, loss: Loss) -> None:
    """A manifest may promise less than was paid for, never more, and lists all that was spent."""
    guarantee, spent, law = manifest.guarantee, spent_loss(manifest), law_of(manifest.guarantee)
    rho_holds = "rho" not in guarantee or _nano(guarantee["rho"]) >= loss.amount(law)
    tau_holds = law != GDP or round(guarantee["tau"] * TAU_UNIT) >= loss.tau
    if not (rho_holds and tau_holds and covers(guarantee, loss)):
        raise GuaranteeError("manifest-price", "the manifest promises more than the ledger was charged for.")
    if spent is None or (spent.law == PURE) != (loss.law == PURE) or spent.amount(law) != loss.amount(law):
        raise GuaranteeError("manifest-price", "the manifest lists other spends than the ledger is charged.")
    problems = price_problems(manifest)
    if problems:
        raise GuaranteeError("manifest-price", f"the manifest does not agree with itself: {problems[0]}")


def covers(guarantee: Mapping[str, Any], loss: Loss) -> bool:
    """Whether (epsilon, delta) is no more than a loss allows: by its pure epsilon, or by rho and law."""
    epsilon, delta, law = guarantee["epsilon"], guarantee["delta"], law_of(guarantee)
    pure = loss.pure_epsilon_nano
    if pure is not None and pure <= epsilon * NANO * (1 + _ROUNDING):
        return True
    if law == PURE or delta <= 0 or (law == GDP and loss.gdp_nano is None):
        return False
    if law == GDP and not slack_fits(loss.tau, epsilon, delta):
        return False
    return delta_for(loss.amount(law) / NANO, epsilon, law) <= delta * (1 + _ROUNDING)


def spent_loss(manifest: Manifest) -> Loss | None:
    """What the spends of a manifest add up to; None where one has no amount, or there is none."""
    law = law_of(manifest.guarantee)
    losses = [_loss(spend, law) for spend in manifest.spends]
    known = [loss for loss in losses if loss is not None]
    if not known or len(known) != len(losses):
        return None
    tau = round(manifest.guarantee["tau"] * TAU_UNIT) if law == GDP else 0
    return replace(compose(known), tau=tau)


def _more_than_pure(spend: Mapping[str, Any], law: str) -> bool:
    """Whether a spend states more rho than its pure epsilon can cost; shares are rounded up."""
    if "rho" not in spend or "epsilon" not in spend:
        return False
    pure = Loss.pure(_nano(spend["epsilon"]))
    return _nano(spend["rho"]) > pure.amount(law) * (1 + 1e-6) + 10


def _loss(spend: Mapping[str, Any], law: str) -> Loss | None:
    given = [spend[name] for name in ("rho", "epsilon") if name in spend]
    if (
        (law == PURE and "rho" in spend)
        or not given
        or not all(is_amount(amount) and _nano(amount) > 0 for amount in given)
    ):
        return None
    if any(amount != _nano(amount) / NANO for amount in given):  # the ledger counts in billionths
        return None
    rho = _nano(spend["rho"]) if "rho" in spend else None
    gdp = rho if law == GDP else None
    if "epsilon" not in spend:
        return None if rho is None else Loss(rho, None, gdp)
    pure = Loss.pure(_nano(spend["epsilon"]))
    return pure if rho is None else replace(pure, rho_nano=rho, gdp_nano=gdp or pure.gdp_nano)


def _nano(amount: float) -> int:
    return round(amount * NANO)


def _allowed(loss: Loss, delta: float, law: str) -> str:
    if delta > 0 and law != PURE:
        amount = loss.amount(law)
        least = in_full(epsilon_for(amount, delta, law))
        return f"rho = {in_full(amount / NANO)} at delta = {in_full(delta)} allows {least}"
    if loss.pure_epsilon_nano is None:
        return "without a delta every spend needs its epsilon"
    return f"the spends add up to epsilon = {in_full(loss.pure_epsilon_nano / NANO)}"
