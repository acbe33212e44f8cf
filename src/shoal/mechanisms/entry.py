"""What the audit needs to know about one registered mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from shoal.errors import PlanError
from shoal.mechanisms.audit_size import ONE_PLACE, AuditSize
from shoal.privacy.accounting import Loss
from shoal.privacy.budget import Budget
from shoal.privacy.noise import Noise

SMALL = AuditSize()
ONE_VISIT = AuditSize(layout=ONE_PLACE, slots=2, ell=1, cap=1)
VISIT = ((0, 0),)


class Mechanism(Protocol):
    """Frozen parameters, `loss()`, one call."""

    name: str

    def loss(self) -> Loss: ...
    def __call__(self, exact: Any, noise: Noise, /) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One registered mechanism, as it is built for an audit."""

    mechanism: type
    releases: str
    guarantee: str  # as a function of the parameters; executable in mechanism.loss()
    spends: tuple[str, ...]  # names of the noise calls, each a spend of the budget
    pure: bool
    make: Callable[[Budget, AuditSize], Mechanism]
    size: AuditSize = SMALL  # for replay and whole pipelines
    tight: AuditSize = ONE_VISIT  # where one user costs the claim
    worst: tuple[tuple[int, int], ...] = VISIT  # slots and places of that user, alone in the city
    reach: Mapping[str, float] = field(default_factory=dict)  # share of a spend's loss; 1 unless said
    follows: bool = False  # asked along answers that the worst user's own values give: else along zeros
    bugs_at: float | None = None  # epsilon that bugs are planted at; None: 1 where pure, else 4
    thorough: bool = False  # enough runs to come within a tenth of the claim

    def build(self, epsilon: float, delta: float | None, size: AuditSize) -> Mechanism:
        """The mechanism with the least noise for a claim of (epsilon, delta)."""
        if not self.pure and delta is None:
            raise PlanError("delta-range", "Gaussian noise needs a delta.", "Pass --delta 1e-6, say.")
        return self.make(Budget.of(epsilon, None if self.pure else delta), size)
