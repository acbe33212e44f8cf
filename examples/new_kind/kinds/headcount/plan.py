"""The plan of a headcount: all that shapes it, given by the owner, none of it read off the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.events.schema import SourcePlan
from shoal.kinds.plan import StretchPlan, check_common, check_settings, part_of
from shoal.privacy.accounting import Budget


@dataclass(frozen=True, kw_only=True)
class HeadcountPlan:
    """How much privacy, for whom, when, from what, to where."""

    population: str
    source: SourcePlan
    window: StretchPlan
    sites: str  # the public list of sites that events name
    epsilon: float
    method: str = "laplace"
    unit: str = "user"
    out: str = "release"
    owner: str = "owner"
    run_id: str = ""
    supersedes: str = ""
    seed: int | None = None
    licence: str = ""

    def __post_init__(self) -> None:
        check_common(self)

    def budget(self) -> Budget:
        """What the release may spend."""
        return Budget.pure_epsilon(self.epsilon)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> HeadcountPlan:
        """A plan from nested settings, as a TOML file or flags give them."""
        check_settings(cls, settings, "")
        source = part_of(SourcePlan, settings["source"], "source")
        window = part_of(StretchPlan, settings["window"], "window")
        return cls(**{**settings, "source": source, "window": window})
