"""What every density mechanism checks before it looks at counts."""

from __future__ import annotations

from shoal.errors import GuaranteeError
from shoal.stages.exact import ExactCounts


def check_input(exact: ExactCounts, *, ell: int, slots: int, lattice: int) -> None:
    """The counts must be of the stage, the bound, the slots and the lattice the noise was scaled for."""
    if not isinstance(exact, ExactCounts):
        raise GuaranteeError("wrong-stage", "a density mechanism takes exact counts of bounded visits only.")
    if exact.ell > ell:
        raise GuaranteeError(
            "sensitivity", "the counts were bounded more loosely than the mechanism was built for."
        )
    if exact.units.shape[1] != slots or exact.lattice != lattice:
        raise GuaranteeError(
            "sensitivity", "the counts have other slots or units than the mechanism was built for."
        )
