"""The pipelines of baselines that take a stage of their own, for the audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shoal.auditing.pipelines.pipeline import Counted, Pipeline
from shoal.postprocess.density.numbers import round_density
from shoal.stages.bounded import BoundedVisits
from shoal.stages.noisy import DensityEstimate
from shoal_baselines.counting import cover_counts
from shoal_baselines.postprocess.scheme import finish_scheme
from shoal_baselines.space.cover import Cover


@dataclass(frozen=True, kw_only=True, eq=False)
class CoverPipeline(Pipeline):
    """Counts of cover cells, back to zones after the noise."""

    spread: Callable[[BoundedVisits, Cover], Any] = cover_counts
    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, setting: round_density(
        finish_scheme(noisy, setting), 1
    )

    def exact(self, counted: Counted) -> Any:
        return self.spread(counted.bounded, self.mechanism.cover)


STAGES: dict[str, type[Pipeline]] = {"cover": CoverPipeline}
