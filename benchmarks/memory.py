"""Most memory of this process, counted from a moment on."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path


def restart_peak() -> None:
    """From here on the most memory is counted anew, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_gb() -> float:
    """Most resident memory since `restart_peak`, or of the whole process."""
    try:
        words = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()
        return int(words[0]) * 1024 / 1e9
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
