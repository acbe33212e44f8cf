"""What the page's server loads before it serves: no kernel, solver, simulator or noise."""

import subprocess
import sys

HEAVY = {"numba", "scipy", "opendp", "plotly", "rich", "shoal.events.simulate", "shoal.kinds.density.prepare"}


def test_the_server_starts_without_what_only_requests_need():
    code = "import sys, shoal.studio.serve; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(loaded.split())
