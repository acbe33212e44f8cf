"""Figures that Pyrgelis et al. 2017 print for the San Francisco cabs."""

from __future__ import annotations

# what, place in the table -> printed
DATA = {
    ("cabs", 0): 534.0,
    ("reports per cab", 1): 3663.0,
    ("their deviation", 2): 1116.0,
    ("places per cab", 3): 77.0,
    ("their deviation", 4): 6.0,
    ("slots per cab", 5): 340.0,
    ("their deviation", 6): 94.0,
}
# prior, inference, goal -> mean error (sections 4.2, 4.3, appendix)
PRINTED = {
    ("freq_roi", "prior", "profiling"): 0.65,
    ("freq_roi", "bayes", "profiling"): 0.62,
    ("freq_roi", "max_user", "profiling"): 0.56,
    ("freq_roi", "max_roi", "profiling"): 0.71,
    ("roi_day", "prior", "profiling"): 0.63,
    ("roi_day_week", "prior", "profiling"): 0.61,
    ("time_day", "prior", "profiling"): 0.73,
    ("time_day_week", "prior", "profiling"): 0.66,
    ("last_hour", "prior", "profiling"): 0.53,
    ("last_day", "prior", "profiling"): 0.63,
    ("last_week", "prior", "profiling"): 0.67,
    ("freq_roi", "prior", "localization all"): 0.83,
    ("freq_roi", "prior", "localization pop"): 0.90,
    ("roi_day_week", "prior", "localization all"): 0.71,
    ("roi_day_week", "prior", "localization pop"): 0.90,
    ("time_day_week", "prior", "localization all"): 0.84,
    ("last_hour", "prior", "localization all"): 0.64,
    ("last_day", "prior", "localization all"): 0.71,
    ("last_week", "prior", "localization all"): 0.73,
}
# prior, inference -> mean privacy loss in profiling
LOSSES = {
    ("freq_roi", "bayes"): 0.06,
    ("freq_roi", "max_user"): 0.16,
    ("roi_day", "bayes"): 0.06,
    ("roi_day", "max_user"): 0.13,
    ("roi_day_week", "bayes"): 0.03,
    ("roi_day_week", "max_user"): 0.07,
    ("time_day", "bayes"): 0.10,
    ("time_day", "max_roi"): 0.16,
    ("time_day", "max_user"): 0.22,
    ("time_day_week", "bayes"): 0.09,
    ("time_day_week", "max_roi"): 0.10,
    ("time_day_week", "max_user"): 0.20,
}
_EPSILONS = (0.001, 0.01, 0.1, 1.0)
_TABLE_4 = {
    "SCM Lap(places x slots/epsilon)": (26.8, 26.3, 26.2, 26.2),
    "SCM Lap(most reports/epsilon)": (26.9, 26.5, 25.9, 24.3),
    "SCM Lap(slots/epsilon)": (26.1, 25.9, 22.4, 8.3),
    "FPA": (24.1, 8.8, 1.1, 0.3),
    "SCM Lap(1/epsilon)": (19.9, 5.1, 0.6, 0.1),
}
TABLE_4 = {
    (name, epsilon): error
    for name, errors in _TABLE_4.items()
    for epsilon, error in zip(_EPSILONS, errors, strict=True)
}
TABLE_5 = {
    "SpotMe p=0.1": 0.4,
    "SpotMe p=0.3": 0.7,
    "SpotMe p=0.5": 1.1,
    "SpotMe p=0.7": 1.6,
    "SpotMe p=0.9": 2.9,
}
# mean privacy gain of profiling, freq_roi with max_user (section 5.2, figs. 8 and 9)
GAINS = {
    ("SCM Lap(most reports/epsilon)", 0.001): 0.36,
    ("SCM Lap(most reports/epsilon)", 0.01): 0.36,
    ("SCM Lap(most reports/epsilon)", 0.1): 0.36,
    ("SCM Lap(most reports/epsilon)", 1.0): 0.36,
    ("SCM Lap(slots/epsilon)", 0.001): 0.36,
    ("SCM Lap(slots/epsilon)", 0.01): 0.36,
    ("FPA", 0.01): 0.36,
    ("SpotMe p=0.5", None): 0.04,
    ("SpotMe p=0.9", None): 0.10,
}
