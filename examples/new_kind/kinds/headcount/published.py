"""The published file of a headcount: its column, and what it determines of the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shoal.kinds.verdict import PER_MEAN, Verdict, judged, unit_noise, with_epsilons
from shoal.release.manifest import Manifest

LIMITS = (0.1, 0.3, 1.0)  # of the mean error over the number of users
FILES = {"headcount.csv": {"users": "users with an event in the window, with noise"}}


def problems(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Where the file does not hold one number of users."""
    _, *numbers = (folder / "headcount.csv").read_text("utf-8").split()
    if len(numbers) != 1 or not numbers[0].isdecimal():
        yield "headcount.csv does not hold one number of users."


def verdict(folder: Path, manifest: Manifest) -> Verdict:
    """From the published number and the size of its noise."""
    users = max(int((folder / "headcount.csv").read_text("utf-8").split()[1]), 1)

    def error(noise: float) -> float:
        return PER_MEAN * noise / users

    noise = unit_noise(manifest.guarantee)
    changes = with_epsilons(manifest.guarantee, error)
    return judged(error(noise), LIMITS, "The number is off by about {error} of itself.", changes)
