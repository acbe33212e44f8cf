"""The published file of a headcount: its column, and what it determines of the manifest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from shoal.release.manifest import Manifest

FILES = {"headcount.csv": {"users": "users with an event in the window, with noise"}}


def problems(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Where the file does not hold one number of users."""
    _, *numbers = (folder / "headcount.csv").read_text("utf-8").split()
    if len(numbers) != 1 or not numbers[0].isdecimal():
        yield "headcount.csv does not hold one number of users."
