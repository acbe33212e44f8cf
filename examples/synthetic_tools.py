"""Open published synthetic trips in geopandas, movingpandas and trackintel.

    python examples/synthetic_tools.py RELEASE

RELEASE is a folder that `shoal synthesize run` wrote, from columns called user, trip,
time, lon and lat. The tools are not needed by shoal itself: pip install geopandas movingpandas trackintel
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore", "Missing optional dependencies")  # of movingpandas, not used here

import geopandas as gpd  # noqa: E402
import movingpandas as mpd  # noqa: E402
from trackintel.io import read_positionfixes_gpd  # noqa: E402


def open_points(release: Path) -> gpd.GeoDataFrame:
    """trips.parquet is GeoParquet: geometry and coordinate system are known."""
    return gpd.read_parquet(release / "trips.parquet")


def as_trajectories(points: gpd.GeoDataFrame) -> mpd.TrajectoryCollection:
    """One movingpandas trajectory per synthetic trip; trips of one point have no line and are left out."""
    return mpd.TrajectoryCollection(points, traj_id_col="trip", t="time")


def as_positionfixes(points: gpd.GeoDataFrame) -> gpd.GeoDataFrame:
    """trackintel's positionfixes; every synthetic trip is a user of its own."""
    fixes = points[["user", "time", "geometry"]].rename_axis("id")
    return read_positionfixes_gpd(fixes, tracked_at="time", user_id="user", geom_col="geometry")


def main(release: Path) -> None:
    points = open_points(release)
    print(f"geopandas: {len(points):,} points of {points['trip'].nunique():,} trips, all synthetic")
    trajectories = as_trajectories(points)
    kilometres = sum(each.get_length(units="km") for each in trajectories)
    print(f"movingpandas: {len(trajectories):,} trajectories, {kilometres / len(trajectories):.2f} km each")
    fixes = as_positionfixes(points)
    fixes, staypoints = fixes.generate_staypoints(time_threshold=2, dist_threshold=500)
    print(f"trackintel: {len(fixes):,} positionfixes, {len(staypoints):,} staypoints")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
