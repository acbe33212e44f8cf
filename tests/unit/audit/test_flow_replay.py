"""Replay of the flow itself: two files that differ by one user, up to every byte of the release folder."""

from dataclasses import replace

import pytest

from shoal.audit.replay import ArbitraryNoise, replay
from shoal.engine.duck import DuckEngine
from shoal.flows.density import DensityBuild
from shoal.flows.plan import DensityPlan
from shoal.flows.prepare import prepare_density
from shoal.flows.progress import Silent
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import SeededNoise

HEADER = "user,time,lon,lat"
CROWD = [f"u{i},2024-03-04T{8 + i % 4:02}:30:00Z,{2.305 + 0.004 * (i % 5)},48.805" for i in range(12)]
ADDED = {
    "at every hour": [f"new,2024-03-04T{hour:02}:10:00Z,2.325,48.815" for hour in range(8, 12)],
    "alone in a zone": ["new,2024-03-04T08:10:00Z,2.301,48.819"],
    "outside the box": ["new,2024-03-04T08:10:00Z,12.0,45.0"],
    "outside the window": ["new,2030-03-04T08:10:00Z,2.31,48.805", "new,1999-01-01T00:00:00Z,2.31,48.805"],
    "many times the same": ["new,2024-03-04T08:10:00Z,2.31,48.805"] * 30,
    "not a number": ["new,2024-03-04T08:10:00Z,NaN,48.805", "new,2024-03-04T09:10:00Z,2.31,48.805"],
}


SITES = ["site,lon,lat", "a,2.305,48.805", "b,2.315,48.806", "c,2.325,48.815"]
AT_SITES = [f"{i},2024-03-04T{8 + i % 4:02}:30:00Z,{'abc'[i % 3]}" for i in range(12)]
ADDED_AT_SITES = {
    "at every hour": [f"99,2024-03-04T{hour:02}:10:00Z,a" for hour in range(8, 12)],
    "at an unknown site": ["99,2024-03-04T08:10:00Z,nowhere", "99,2024-03-04T09:10:00Z,c"],
    "at many sites in one hour": [f"99,2024-03-04T08:{k:02}:00Z,{'abc'[k % 3]}" for k in range(50)],
}


def released(folder, rows, out, method, sites=None):
    """The flow between reserve and commit on one file, as a function of the noise."""
    folder.mkdir(parents=True, exist_ok=True)
    header = HEADER if sites is None else "user,time,site"
    (folder / "events.csv").write_text("\n".join([header, *rows, ""]))
    places = {} if sites is None else {"sites": str(sites)}

    def run(noise):
        plan = DensityPlan.from_settings(
            {
                "population": "town",
                "epsilon": 1.0,
                "method": method,
                "ell": 2,
                "source": {"paths": (str(folder / "events.csv"),), "on_bad_row": "drop"},
                "window": {"start": "2024-03-04T08:00", "end": "2024-03-04T12:00", "time_zone": "UTC"},
                "space": {"box": (2.30, 48.80, 2.33, 48.82), "cell_m": 1000.0, **places},
            }
        )
        build = DensityBuild(prepare_density(plan), DuckEngine(threads=1), Silent())
        build.check()
        out.mkdir(parents=True)
        manifest = replace(build(out, noise), created="at some time")
        files = sorted(path for path in out.rglob("*") if path.is_file())
        return (
            b"".join(path.name.encode() + path.read_bytes() for path in files) + manifest.to_json().encode()
        )

    return run


@pytest.mark.parametrize("method", ["gaussian", "laplace"])
@pytest.mark.parametrize("case", sorted(ADDED))
def test_release_folders_of_neighbours_are_the_same_but_for_the_noise(case, method, tmp_path):
    table, larger = CROWD, CROWD[:5] + ADDED[case] + CROWD[5:]
    claim = Loss(24_355_971) if method == "gaussian" else Loss.pure(10**9)
    for turn, source in enumerate((SeededNoise(1), ArbitraryNoise(0))):
        both = (table, larger) if turn == 0 else (larger, table)
        first, second = (
            released(tmp_path / f"{turn}{side}", rows, tmp_path / f"{turn}{side}" / "out", method)
            for side, rows in enumerate(both)
        )
        verdict = replay(first, second, claim, source, bytes(range(16)))
        assert verdict.problems == verdict.raised == ()
        assert (verdict.rho > 0) == (case not in ("outside the box", "outside the window"))


@pytest.mark.parametrize("method", ["gaussian", "laplace"])
@pytest.mark.parametrize("case", sorted(ADDED_AT_SITES))
def test_the_same_with_sites_and_area_weights(case, method, tmp_path):
    sites = tmp_path / "sites.csv"
    sites.write_text("\n".join([*SITES, ""]))
    both = AT_SITES, AT_SITES[:7] + ADDED_AT_SITES[case] + AT_SITES[7:]
    claim = Loss(24_355_971) if method == "gaussian" else Loss.pure(10**9)
    first, second = (
        released(tmp_path / str(side), rows, tmp_path / str(side) / "out", method, sites)
        for side, rows in enumerate(both)
    )
    verdict = replay(first, second, claim, SeededNoise(2), bytes(range(16)))
    assert verdict.problems == verdict.raised == ()
    assert verdict.rho > 0
