"""Publish the movement of a crowd without giving away a person.

The names below are public; each is imported from its module when it is first used.
"""

import os as _os
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.anonymise.kmerge import k_merge
    from shoal.engine.spark.engine import SparkEngine
    from shoal.errors import ShoalError
    from shoal.events.readers import check_rows
    from shoal.events.schema import TripRule
    from shoal.events.simulate import preset_named, simulate_city
    from shoal.events.source import open_source
    from shoal.events.trips import read_trips
    from shoal.kinds.density.plan import DensityPlan
    from shoal.kinds.density.prepare import prepare_density
    from shoal.kinds.density.totals import read_density
    from shoal.kinds.histogram.plan import HistogramPlan
    from shoal.kinds.histogram.prepare import prepare_histogram
    from shoal.kinds.plan import read_plan
    from shoal.kinds.run import run
    from shoal.kinds.synthetic.plan import SyntheticPlan
    from shoal.kinds.synthetic.prepare import prepare_synthetic
    from shoal.kinds.trajectories.plan import TrajectoryPlan
    from shoal.kinds.trajectories.prepare import prepare_trajectories
    from shoal.kinds.trajectories.verify import verify_trajectories
    from shoal.privacy.ledger import open_ledger
    from shoal.release.evidence import gather_evidence, write_evidence
    from shoal.release.histogram_files import read_histogram
    from shoal.release.publish import publish
    from shoal.release.verify import check_release
    from shoal.space.clock import Clock
    from shoal.space.places import read_sites, read_zones
    from shoal.studio.serve import serve_studio

__version__ = "0.1.0"

_MODULES = {
    "Clock": "space.clock",
    "DensityPlan": "kinds.density.plan",
    "HistogramPlan": "kinds.histogram.plan",
    "ShoalError": "errors",
    "SparkEngine": "engine.spark.engine",
    "SyntheticPlan": "kinds.synthetic.plan",
    "TrajectoryPlan": "kinds.trajectories.plan",
    "TripRule": "events.schema",
    "check_release": "release.verify",
    "check_rows": "events.readers",
    "gather_evidence": "release.evidence",
    "k_merge": "anonymise.kmerge",
    "open_ledger": "privacy.ledger",
    "open_source": "events.source",
    "prepare_density": "kinds.density.prepare",
    "prepare_histogram": "kinds.histogram.prepare",
    "prepare_synthetic": "kinds.synthetic.prepare",
    "prepare_trajectories": "kinds.trajectories.prepare",
    "preset_named": "events.simulate",
    "publish": "release.publish",
    "read_density": "kinds.density.totals",
    "read_histogram": "release.histogram_files",
    "read_plan": "kinds.plan",
    "read_sites": "space.places",
    "read_trips": "events.trips",
    "read_zones": "space.places",
    "run": "kinds.run",
    "serve_studio": "studio.serve",
    "simulate_city": "events.simulate",
    "verify_trajectories": "kinds.trajectories.verify",
    "write_evidence": "release.evidence",
}

__all__ = [  # noqa: RUF022
    "DensityPlan",
    "read_plan",
    "prepare_density",
    "read_density",
    "TrajectoryPlan",
    "prepare_trajectories",
    "verify_trajectories",
    "k_merge",
    "HistogramPlan",
    "prepare_histogram",
    "read_histogram",
    "SyntheticPlan",
    "prepare_synthetic",
    "run",
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
    if name not in _MODULES:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    return getattr(_import_module(f"shoal.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
