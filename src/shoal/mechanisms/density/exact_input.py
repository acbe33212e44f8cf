"""What plain density mechanisms share: the check of exact counts, and how their noise is reported."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.errors import GuaranteeError
from shoal.stages.exact import ExactCounts

Z95 = 1.959964


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


@dataclass(frozen=True)
class NoiseOfCount:
    """The noise in one released count before post-processing, where it has a formula."""

    family: str  # "gaussian" | "laplace"
    deviation: float  # standard deviation, in people


def plain_noise(family: str, mean: float, half: float, scale: str) -> tuple[str, ...]:
    """For the recipient: independent noise of `mean` people in every count, below `half` in 95 % of cases."""
    return (
        f"{family} noise was added to every zone and slot: before counts were scaled up it is {mean:.1f} on "
        f"average, and less than {half:.1f} in 95 of 100 cases. Counts much smaller than the noise say "
        f"little. In the manifest, `noise_scale_people` is that noise of one count in people: its {scale}.",
        "The noise of a sum of n counts grows like the square root of n.",
    )
