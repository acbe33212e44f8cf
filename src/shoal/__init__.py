"""Publish the movement of a crowd without giving away a person.

The names below are the public ones; each is imported from its room when it is first used.
"""

import os as _os
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.anonymise.kmerge import k_merge
    from shoal.engine.spark.engine import SparkEngine
    from shoal.errors import ShoalError
    from shoal.events.checks import check_rows
    from shoal.events.simulate import preset_named, simulate_city
    from shoal.events.source import open_source
    from shoal.events.trip_reader import read_trips
    from shoal.events.trips import TripRule
    from shoal.flows.density import run_density
    from shoal.flows.evidence import gather_evidence, write_evidence
    from shoal.flows.histogram import run_histogram
    from shoal.flows.histogram_plan import HistogramPlan
    from shoal.flows.histogram_prepare import prepare_histogram
    from shoal.flows.plan import DensityPlan, read_plan
    from shoal.flows.prepare import prepare_density
    from shoal.flows.synthetic import run_synthetic
    from shoal.flows.synthetic_plan import SyntheticPlan
    from shoal.flows.synthetic_prepare import prepare_synthetic
    from shoal.flows.trajectories import prepare_trajectories, run_trajectories
    from shoal.flows.trajectories_plan import TrajectoryPlan
    from shoal.flows.trajectories_verify import verify_trajectories
    from shoal.privacy.ledger import open_ledger
    from shoal.release.histogram_published import read_histogram
    from shoal.release.publish import publish
    from shoal.release.verify import check_release
    from shoal.space.clock import Clock
    from shoal.space.sites import read_sites
    from shoal.space.zones import read_zones
    from shoal.studio.serve import serve_studio

__version__ = "0.1.0"

_ROOMS = {
    "Clock": "space.clock",
    "DensityPlan": "flows.plan",
    "HistogramPlan": "flows.histogram_plan",
    "ShoalError": "errors",
    "SparkEngine": "engine.spark.engine",
    "SyntheticPlan": "flows.synthetic_plan",
    "TrajectoryPlan": "flows.trajectories_plan",
    "TripRule": "events.trips",
    "check_release": "release.verify",
    "check_rows": "events.checks",
    "gather_evidence": "flows.evidence",
    "k_merge": "anonymise.kmerge",
    "open_ledger": "privacy.ledger",
    "open_source": "events.source",
    "prepare_density": "flows.prepare",
    "prepare_histogram": "flows.histogram_prepare",
    "prepare_synthetic": "flows.synthetic_prepare",
    "prepare_trajectories": "flows.trajectories",
    "preset_named": "events.simulate",
    "publish": "release.publish",
    "read_histogram": "release.histogram_published",
    "read_plan": "flows.plan",
    "read_sites": "space.sites",
    "read_trips": "events.trip_reader",
    "read_zones": "space.zones",
    "run_density": "flows.density",
    "run_histogram": "flows.histogram",
    "run_synthetic": "flows.synthetic",
    "run_trajectories": "flows.trajectories",
    "serve_studio": "studio.serve",
    "simulate_city": "events.simulate",
    "verify_trajectories": "flows.trajectories_verify",
    "write_evidence": "flows.evidence",
}

__all__ = [  # noqa: RUF022
    "DensityPlan",
    "read_plan",
    "prepare_density",
    "run_density",
    "TrajectoryPlan",
    "prepare_trajectories",
    "run_trajectories",
    "verify_trajectories",
    "k_merge",
    "HistogramPlan",
    "prepare_histogram",
    "run_histogram",
    "read_histogram",
    "SyntheticPlan",
    "prepare_synthetic",
    "run_synthetic",
    "SparkEngine",
    "open_ledger",
    "publish",
    "check_release",
    "gather_evidence",
    "write_evidence",
    "serve_studio",
    "open_source",
    "check_rows",
    "read_trips",
    "TripRule",
    "read_zones",
    "read_sites",
    "Clock",
    "preset_named",
    "simulate_city",
    "ShoalError",
    "__version__",
]


if not _os.access(_os.path.dirname(__file__), _os.W_OK):  # numba cannot cache compiled code beside the source
    _import_module("shoal.scratch").compiled_cache()


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    return getattr(_import_module(f"shoal.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
