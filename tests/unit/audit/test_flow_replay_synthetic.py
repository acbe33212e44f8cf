"""Replay of the flow of synthetic trips: two files that differ by one user, to every byte of the folder."""

from dataclasses import replace

import pytest

from shoal.audit.replay import ArbitraryNoise, replay
from shoal.flows.commute_release import CommuteBuild
from shoal.flows.progress import Silent
from shoal.flows.synthetic import SyntheticBuild
from shoal.flows.synthetic_plan import SyntheticPlan
from shoal.flows.synthetic_prepare import prepare_synthetic
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import SeededNoise

DAY = "2024-03-04T"
CROWD = [
    f"u{i},{DAY}{8 + i % 4:02}:{minute:02}:00Z,{2.303 + 0.004 * (i % 5) + 0.0005 * minute},48.805"
    for i in range(9)
    for minute in range(0, 20, 4)
]
ADDED = {
    "many trips": [
        f"new,{DAY}{hour:02}:{minute:02}:00Z,{2.32 - 0.001 * minute},48.81"
        for hour in range(8, 12)
        for minute in range(0, 10, 2)
    ],
    "a trip of one point": [f"new,{DAY}08:10:00Z,2.301,48.819"],
    "outside the box": [f"new,{DAY}08:10:00Z,12.0,45.0"],
    "outside the window": ["new,2030-03-04T08:10:00Z,2.31,48.805", "new,1999-01-01T00:00:00Z,2.31,48.805"],
    "in and out of the box": [
        f"new,{DAY}08:{minute:02}:00Z,{2.31 if minute % 2 else 2.5},48.805" for minute in range(20)
    ],
    "many times the same": [f"new,{DAY}08:10:00Z,2.31,48.805"] * 30,
    "before all others": [f"a,{DAY}08:{minute:02}:00Z,2.31,48.805" for minute in range(5)],
}
SITES = ["site,lon,lat", "a,2.305,48.805", "b,2.315,48.806", "c,2.325,48.815"]
AT_SITES = [f"{i},{DAY}{8 + i % 4:02}:30:00Z,{'abc'[i % 3]}" for i in range(12)]


def released(folder, header, rows, settings):
    """The flow between reserve and commit on one file, as a function of the noise."""
    folder.mkdir(parents=True)
    (folder / "events.csv").write_text("\n".join([header, *rows, ""]))

    def run(noise):
        plan = SyntheticPlan.from_settings(
            {
                "population": "town",
                "epsilon": 1.0,
                "count": 30,
                "source": {"paths": (str(folder / "events.csv"),), "on_bad_row": "drop"},
                "window": {"start": "2024-03-04T08:00", "end": "2024-03-04T12:00", "time_zone": "UTC"},
                **settings,
            }
        )
        prepared = prepare_synthetic(plan)
        build = (CommuteBuild if settings.get("method") == "commute" else SyntheticBuild)(prepared, Silent())
        build.check()
        out = folder / "out"
        out.mkdir()
        manifest = replace(build(out, noise), created="at some time")
        files = sorted(path for path in out.rglob("*") if path.is_file())
        return (
            b"".join(path.name.encode() + path.read_bytes() for path in files) + manifest.to_json().encode()
        )

    return run


def verdicts(tmp_path, header, both, settings):
    for turn, source in enumerate((SeededNoise(1), ArbitraryNoise(1))):
        sides = both if turn == 0 else both[::-1]
        first, second = (
            released(tmp_path / f"{turn}{side}", header, rows, settings) for side, rows in enumerate(sides)
        )
        yield replay(first, second, Loss.pure(10**9), source, bytes(range(16)))


@pytest.mark.parametrize("method", ["bridges", "ngram"])
@pytest.mark.parametrize("case", sorted(ADDED))
def test_release_folders_of_neighbours_are_the_same_but_for_the_noise(case, method, tmp_path):
    settings = {
        "method": method,
        "trip_rule": {"gap_minutes": 15.0},
        "space": {"box": (2.30, 48.80, 2.33, 48.82), "cells": "5x4"},
    }
    both = CROWD, CROWD[:5] + ADDED[case] + CROWD[5:]
    for verdict in verdicts(tmp_path, "user,time,lon,lat", both, settings):
        assert verdict.problems == verdict.raised == ()
        assert (verdict.rho > 0) == (case not in ("outside the box", "outside the window"))


def test_the_same_with_records_of_sites(tmp_path):
    sites = tmp_path / "sites.csv"
    sites.write_text("\n".join([*SITES, ""]))
    added = [f"99,{DAY}{8 + k % 4:02}:{k:02}:00Z,{'abc'[k % 3]}" for k in range(50)]
    added += [f"99,{DAY}08:10:00Z,nowhere"]
    settings = {"method": "commute", "space": {"sites": str(sites)}}
    both = AT_SITES, AT_SITES[:7] + added + AT_SITES[7:]
    for verdict in verdicts(tmp_path, "user,time,site", both, settings):
        assert verdict.problems == verdict.raised == ()
        assert verdict.rho > 0
