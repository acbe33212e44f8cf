"""What the constants of `bridges` that were looked at on San Francisco are worth there and elsewhere.

    python -m benchmarks.synthetic_constants     some ten minutes; the page of bench-synthetic shows the table

One constant at a time is set to other values, on cabs and on the simulated town, by the same seeds. Where
another value is better on the town and the shipped one on the cabs, the shipped one is tuned to the cabs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import mean

import shoal.mechanisms.synthetic.bridges as mechanism
import shoal.postprocess.synthetic.bridge_model as model
import shoal.postprocess.synthetic.bridge_tables as places
from benchmarks.histogram_data import missing
from benchmarks.synthetic_cells import BRIDGES, SF_100K, Run, World
from benchmarks.synthetic_words import CONSTANTS_FILE
from benchmarks.synthetic_world import OpenWorld
from benchmarks.table import machine_class

PULLS = model.PULLS
SETTINGS = {
    "as shipped": {},
    "share of corners .03": {"corners": 0.03},
    "share of corners .12": {"corners": 0.12},
    "corners from half as many trips": {"CORNERS_FROM": mechanism.CORNERS_FROM / 2},
    "corners from twice as many trips": {"CORNERS_FROM": mechanism.CORNERS_FROM * 2},
    "4 rounds of calibration": {"PULLS": PULLS[:4]},
    "8 rounds of calibration": {"PULLS": (*PULLS, 0.17, 0.15)},
    "residual variance of flows 1": {"FLOW_DEVIATION": 1.0},
    "residual variance of flows 4": {"FLOW_DEVIATION": 4.0},
    "share of moves .30": {"moves": 0.30},
    "share of moves .45": {"moves": 0.45},
}
WORLDS = (SF_100K, World("town"))
PRICES = ((1.0, None), (0.5, 1e-6))
REPS = 2
SHOWN = ("pattern_f1", "pattern_f1_35", "visit_error", "od_jsd", "range_error")


def main() -> None:
    for world in WORLDS:
        if reason := missing(world.data):
            print(f"skipped {world.data}: {reason}")
            continue
        opened = OpenWorld(world)
        opened.warm([Run(BRIDGES, 1.0)])
        for name, setting in SETTINGS.items():
            with _set(setting):
                for epsilon, delta in PRICES:
                    runs = [opened.measured(Run(BRIDGES, epsilon, delta, rep)) for rep in range(1, REPS + 1)]
                    row = {"data": world.data, "setting": name, "epsilon": epsilon, "delta": delta}
                    row |= {each: round(mean(run[each] for run in runs), 5) for each in SHOWN}
                    print(json.dumps(row), flush=True)
                    CONSTANTS_FILE.parent.mkdir(exist_ok=True)
                    with open(CONSTANTS_FILE, "a", encoding="utf-8") as file:
                        file.write(json.dumps(row | {"machine": machine_class()}) + "\n")


@contextmanager
def _set(setting: dict) -> Iterator[None]:
    """Constants as given, and as before afterwards."""
    homes = {
        "CORNERS_FROM": mechanism.SyntheticBridges.within.__func__.__kwdefaults__,  # type: ignore[attr-defined]
        "PULLS": vars(model),
        "FLOW_DEVIATION": vars(places),
    }
    keys = {"CORNERS_FROM": "corners_from"}
    changes = [
        (homes.get(name, mechanism.SHARES), keys.get(name, name), value) for name, value in setting.items()
    ]
    before = [(home, key, home[key]) for home, key, _ in changes]
    try:
        for home, key, value in changes:
            home[key] = value
        yield
    finally:
        for home, key, value in before:
            home[key] = value


if __name__ == "__main__":
    main()
