"""The noise of real runs: fresh in every run and for every question.

Runs use the noise of the operating system, watched. Probabilities of a false alarm are below 1e-9.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from shoal.auditing.end_to_end.driver import Adapter, run
from shoal.auditing.end_to_end.worlds import World
from shoal.auditing.replay import Call, RecordingNoise
from shoal.privacy.noise import OsNoise

RUNS = 4
WIDE = 1e5  # from this scale on, three equal draws among hundreds have a probability below 1e-9 per triple


class WatchedNoise(RecordingNoise):
    """OsNoise as it is, with every draw and run key kept; made before the run is driven."""

    def __init__(self) -> None:
        real = OsNoise(processes=1)
        super().__init__(_Bound(real), b"")
        self.keys: list[bytes] = []

    def run_key(self) -> bytes:
        self.keys.append(self._inner.run_key())
        return self.keys[-1]


class _Bound:
    """The methods of a noise as they are now, whatever is put in their place later."""

    publishable = True

    def __init__(self, real: OsNoise) -> None:
        self.run_key, self.laplace = real.run_key, real.laplace
        self.gaussian, self.choose = real.gaussian, real.choose


def repeated(adapter: Adapter, world: World) -> Iterator[str]:
    """Run keys and draws that come again, from one run to the next or from one question to another."""
    keys: list[bytes] = []
    drawn: list[list[Call]] = []
    with tempfile.TemporaryDirectory(prefix="shoal-audit-") as scratch:
        for _ in range(RUNS):
            watched = WatchedNoise()
            run(adapter, world, world.table, watched, Path(scratch) / "run")
            keys += watched.keys
            drawn.append(watched.calls)
    if len(set(keys)) < len(keys) or any(len(key) < 16 for key in keys):
        yield "a run key comes again in another run, or is shorter than 16 bytes"
    for calls in zip(*drawn, strict=False):
        noise = [_noise(call) for call in calls]
        first = noise[0]
        same = first is not None and all(each is not None and np.array_equal(first, each) for each in noise)
        if same and _surprising(calls[0]):
            yield f"the noise of {calls[0].name} is the same in {RUNS} runs"
    single = Counter(
        int(noise.ravel()[0])
        for calls in drawn
        for call in calls
        if (noise := _noise(call)) is not None and noise.size == 1 and call.scale >= WIDE
    )
    yield from (f"{count} questions got the same noise" for _, count in single.most_common(1) if count > 2)


def _noise(call: Call) -> np.ndarray | None:
    return call.answer - call.exact if isinstance(call.answer, np.ndarray) else None


def _surprising(call: Call) -> bool:
    """Whether the same noise in all runs has a probability below 1e-9."""
    return call.exact.size * (RUNS - 1) * math.log(max(call.scale, 1.0)) > math.log(1e9)
