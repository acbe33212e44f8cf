"""Whether the numbers of a manifest agree: its sentence, epsilon, delta and rho, and the spends behind them.

A recipient has no ledger, so this is all that can be held against a manifest that promises too much.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.privacy.accounting import NANO, Loss, compose, delta_for, epsilon_for
from shoal.privacy.guarantee import PROMISE_VERSION, in_full, promise
from shoal.release.manifest import Manifest, is_amount

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
    spent = spent_loss(manifest)
    if spent is None:
        return [*problems, "its spends must be listed, each with a rho or an epsilon above 0."]
    rho_nano = _nano(guarantee["rho"]) if "rho" in guarantee else spent.rho_nano
    if spent.rho_nano != rho_nano:
        more = "more" if spent.rho_nano > rho_nano else "less"
        problems.append(f"the spends add up to {more} than the rho of the guarantee.")
    if any(_more_than_pure(spend) for spend in manifest.spends):
        problems.append("a spend has a rho above epsilon^2 / 2.")
    whole = Loss(max(rho_nano, spent.rho_nano), spent.pure_epsilon_nano)
    if not covers(guarantee, whole):
        problems.append(f"epsilon = {in_full(epsilon)} is below what was spent: {_allowed(whole, delta)}.")
    return problems


def covers(guarantee: Mapping[str, Any], loss: Loss) -> bool:
    """Whether (epsilon, delta) is no more than a loss allows: by its pure epsilon, or by its rho."""
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    pure = loss.pure_epsilon_nano
    if pure is not None and pure <= epsilon * NANO * (1 + _ROUNDING):
        return True
    return delta > 0 and delta_for(loss.rho, epsilon) <= delta * (1 + _ROUNDING)


def spent_loss(manifest: Manifest) -> Loss | None:
    """What the spends of a manifest add up to; None where one has no amount, or there is none."""
    losses = [_loss(spend) for spend in manifest.spends]
    known = [loss for loss in losses if loss is not None]
    return compose(known) if known and len(known) == len(losses) else None


def _more_than_pure(spend: Mapping[str, Any]) -> bool:
    """Whether a spend states more rho than its pure epsilon can cost; shares are rounded up."""
    if "rho" not in spend or "epsilon" not in spend:
        return False
    return _nano(spend["rho"]) > Loss.pure(_nano(spend["epsilon"])).rho_nano * (1 + 1e-6) + 10


def _loss(spend: Mapping[str, Any]) -> Loss | None:
    given = [spend[name] for name in ("rho", "epsilon") if name in spend]
    if not given or not all(is_amount(amount) and _nano(amount) > 0 for amount in given):
        return None
    if any(amount != _nano(amount) / NANO for amount in given):  # the ledger counts in billionths
        return None
    if "epsilon" not in spend:
        return Loss(_nano(spend["rho"]))
    pure = Loss.pure(_nano(spend["epsilon"]))
    return Loss(_nano(spend["rho"]), pure.pure_epsilon_nano) if "rho" in spend else pure


def _nano(amount: float) -> int:
    return round(amount * NANO)


def _allowed(loss: Loss, delta: float) -> str:
    if delta > 0:
        least = in_full(epsilon_for(loss.rho_nano, delta))
        return f"rho = {in_full(loss.rho)} at delta = {in_full(delta)} allows {least}"
    if loss.pure_epsilon_nano is None:
        return "without a delta every spend needs its epsilon"
    return f"the spends add up to epsilon = {in_full(loss.pure_epsilon_nano / NANO)}"
