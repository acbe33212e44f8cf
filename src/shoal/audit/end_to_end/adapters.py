"""The kinds of releases that the end-to-end replay drives: how each is prepared and run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from shoal.audit.end_to_end.driver import Adapter
from shoal.kinds.commute.build import CommuteBuild
from shoal.kinds.density.build import DensityBuild, run_density
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.density.prepare import prepare_density
from shoal.kinds.histogram.build import HistogramBuild, run_histogram
from shoal.kinds.histogram.plan import HistogramPlan
from shoal.kinds.histogram.prepare import prepare_histogram
from shoal.kinds.query.ask import Ask
from shoal.kinds.query.build import run_query
from shoal.kinds.query.prepare import QueryPlan, prepare_query
from shoal.kinds.synthetic.build import SyntheticBuild, run_synthetic
from shoal.kinds.synthetic.plan import SyntheticPlan
from shoal.kinds.synthetic.prepare import prepare_synthetic


def _prepare(plan: Any, prepare: Any, settings: Mapping[str, Any]) -> Any:
    return prepare(plan.from_settings(dict(settings)))


def _query(settings: Mapping[str, Any]) -> Any:
    density = dict(settings)
    asks = tuple(Ask.of(each, number) for number, each in enumerate(density.pop("asks"), 1))
    flags = {name: density.pop(name) for name in ("epsilon", "out", "updates")}
    flags["mechanism"] = density.pop("method")
    return prepare_query(QueryPlan.from_settings(density, flags, asks))


_synthetic = partial(_prepare, SyntheticPlan, prepare_synthetic)
ADAPTERS = {
    "density": Adapter(partial(_prepare, DensityPlan, prepare_density), run_density, DensityBuild),
    "query": Adapter(_query, run_query),
    "histogram": Adapter(partial(_prepare, HistogramPlan, prepare_histogram), run_histogram, HistogramBuild),
    "synthetic": Adapter(_synthetic, run_synthetic, SyntheticBuild),
    "commute": Adapter(_synthetic, run_synthetic, CommuteBuild),
}
