"""Registration of the baselines with the audit: pipelines, planted bugs, and the loss one unit reaches.

>>> sorted(STAGES)
['cover']
"""

from shoal.auditing.pipelines.trips import PathPipeline, TripPipeline
from shoal.auditing.planted.calls import call_bugs, spend_bugs
from shoal.auditing.planted.counts import bound_bugs, cap_bugs, count_bugs, table_bugs, zone_bugs
from shoal_baselines.auditing.density import CoverPipeline, pure_scheme_bugs, scheme_bugs
from shoal_baselines.auditing.histograms import adjusted, histogram_bugs, level_bugs

__all__ = ["FAMILIES", "REACHED", "STAGES", "adjusted"]

STAGES = {"cover": CoverPipeline}
FAMILIES = {
    CoverPipeline: (
        *(call_bugs, spend_bugs, scheme_bugs, pure_scheme_bugs, bound_bugs, zone_bugs, cap_bugs, count_bugs),
        table_bugs,
    ),
    TripPipeline: (histogram_bugs,),
    PathPipeline: (level_bugs,),
}
# Share of loss() that one unit at one place asks for, see shoal/auditing/composition.py: a choice pays for a
# range of twice the sensitivity, deviation costs and rectangles for other units than this one, Fourier
# components for the worst slots; where no gram is extended, nothing is measured with its share.
REACHED = {
    "density-fpa-laplace": 0.5,
    "density-scaled-fpa-laplace": 0.5,
    "density-scm-full": 0.0,
    "density-scaled-scm-full": 0.0,
    "density-efpa": 0.6,
    "density-efpag": 0.4,
    "density-efpag-basic": 0.25,
    "density-efpag-repaired": 0.3,
    "histogram-mwem": 0.04,
    "histogram-prish": 0.5,
    "histogram-dqam": 0.7,
    "synthetic-ngram": 0.5,
    "synthetic-prefix": 0.25,
    "synthetic-dpt": 0.6,
}
