"""The promise of a release in numbers and in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.privacy.accounting import NANO, Loss
from shoal.privacy.unit import Unit


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy for one unit, add or remove, and the rho behind it.

    >>> print(Guarantee.of(Loss.pure(10**9), delta=None, unit=Unit()).sentence)
    Adding or removing one user changes the probability of any output by a factor of at most e^1.
    """

    epsilon: float
    delta: float
    loss: Loss
    unit: Unit

    @classmethod
    def of(cls, loss: Loss, *, delta: float | None, unit: Unit) -> Guarantee:
        """What a loss promises: pure when it is pure and no delta was asked for."""
        if loss.pure_epsilon_nano is not None:
            return cls(epsilon=loss.pure_epsilon_nano / NANO, delta=0.0, loss=loss, unit=unit)
        if delta is None:
            raise ValueError("a loss that is not pure needs a delta")
        return cls(epsilon=loss.epsilon(delta), delta=delta, loss=loss, unit=unit)

    @property
    def sentence(self) -> str:
        return promise(self.epsilon, self.delta, self.unit.name)

    def to_manifest(self) -> dict:
        return {
            "kind": "differential privacy",
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.loss.rho,
            "unit": self.unit.name,
            "neighbours": f"add or remove one {self.unit.name}",
        }


def promise(epsilon: float, delta: float, unit: str) -> str:
    """The one sentence that says (epsilon, delta) for a unit; a manifest holds it and nothing else."""
    tail = "" if delta == 0 else f", but for a chance of {in_full(delta)}"
    return (
        f"Adding or removing one {unit} changes the probability of any output "
        f"by a factor of at most e^{in_full(epsilon)}{tail}."
    )


def in_full(number: float) -> str:
    """Every digit of a promised number: rounding for looks might promise more than was paid for.

    >>> in_full(1.0), in_full(1.0000004), in_full(1e-6)
    ('1', '1.0000004', '1e-06')
    """
    return repr(float(number)).removesuffix(".0")
