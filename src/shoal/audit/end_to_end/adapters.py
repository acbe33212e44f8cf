"""The kinds of releases that the end-to-end replay drives: how each is prepared and run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from shoal.audit.end_to_end.driver import Adapter
from shoal.flows.commute_release import CommuteBuild
from shoal.flows.density import DensityBuild, run_density
from shoal.flows.histogram import HistogramBuild, run_histogram
from shoal.flows.histogram_plan import HistogramPlan
from shoal.flows.histogram_prepare import prepare_histogram
from shoal.flows.plan import DensityPlan
from shoal.flows.prepare import prepare_density
from shoal.flows.query import run_query
from shoal.flows.query_ask import Ask
from shoal.flows.query_prepare import QueryPlan, prepare_query
from shoal.flows.synthetic import SyntheticBuild, run_synthetic
from shoal.flows.synthetic_plan import SyntheticPlan
from shoal.flows.synthetic_prepare import prepare_synthetic


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
