"""A density of a simulated town, made on the cluster that spark-submit names.

    spark-submit --master spark://HOST:7077 examples/spark/release.py TOWN RELEASE

TOWN is a folder that `shoal simulate town` wrote; RELEASE must not exist. The ledger is the usual one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import shoal


def main(town: Path, release: Path) -> None:
    settings = shoal.read_plan(str(town / "density.toml"))
    plan = shoal.DensityPlan.from_settings(
        # plain noise, so that this is not the release that run.sh has made before
        {**settings, "method": "gaussian", "out": str(release), "owner": str(release) + "-owner"}
    )
    with shoal.SparkEngine() as engine:  # the session that spark-submit has set up
        prepared = shoal.prepare_density(plan, engine)
        result = shoal.run(prepared, shoal.open_ledger(), engine=engine)
    print(f"release {result.release}, report {result.report}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
