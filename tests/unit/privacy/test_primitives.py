"""What the primitives do with the draws of OpenDP, which needs no statistics: the sampler is replaced.

With a sampler that returns arbitrary integers, up to LARGEST, the answer to a query is the query plus these
integers, each used once and in an order that does not depend on the query, at every size and number of child
processes. A choice hands all scores on and returns what the sampler picked. A test asks for one threshold at
its scale and for all margins at twice the scale, however many they are.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from opendp import measurements
from tests.loops import for_each

from shoal.errors import GuaranteeError
from shoal.privacy import noise as noise_module
from shoal.privacy.noise import LARGEST, PARALLEL_FROM, OsNoise, first_above

SCALE = 2.3
RELEASE = None  # as many processes as a release has, here on a machine of 64 cores


def wild(count, seed=7):
    """Any integers that the lattice takes, both ends among them where they fit."""
    values = np.random.default_rng(seed).integers(-LARGEST, LARGEST, count, endpoint=True)
    values[: min(2, count - 1)] = [LARGEST, -LARGEST][: min(2, count - 1)]
    return values


class Tape:
    """Arbitrary integers in place of OpenDP's samplers, here and in child processes; and what was asked."""

    def __init__(self, monkeypatch):
        self.asked, self.drawn, self.scores, self.children = set(), [], None, 0
        for kind in ("laplace", "gaussian"):
            monkeypatch.setattr(measurements, f"make_{kind}", self._sampler(kind))
        monkeypatch.setattr(measurements, "make_noisy_max", self._noisy_max)
        monkeypatch.setattr(noise_module.subprocess, "Popen", self._child)
        monkeypatch.setattr(noise_module.os, "cpu_count", lambda: 64)

    def _sampler(self, kind):
        def make(*_, scale):
            def measure(exact):
                self.asked.add((kind, scale, tuple(set(exact))))
                self.drawn.append(wild(len(exact), seed=len(self.drawn)))
                return self.drawn[-1]

            return measure

        return make

    def _noisy_max(self, *_, scale):
        def pick(scores):
            self.asked.add(("choose", scale))
            self.scores = scores
            return len(scores) - 1

        return pick

    def _child(self, command, **_):
        kind, scale, count = command[-3:]
        self.children += 1
        output = noise_module.draw(kind, float.fromhex(scale), int(count)).tobytes()
        return SimpleNamespace(communicate=lambda: (output, None), returncode=0)


@pytest.mark.parametrize("processes", [1, 2, 3, 8, RELEASE])
@pytest.mark.parametrize("count", [1, 10_001, PARALLEL_FROM, 2 * PARALLEL_FROM + 1])
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_every_draw_is_added_once_whatever_the_query(kind, count, processes, monkeypatch):
    noise = []
    for exact in (np.zeros(count, np.int64), wild(count, seed=count)):
        tape = Tape(monkeypatch)
        noise.append(getattr(OsNoise(processes), kind)("draws", exact, SCALE) - exact)
        finer = 2.0**51 if kind == "gaussian" else 1.0  # to a scale of 2^52 steps or more
        assert tape.asked == {(kind, SCALE * finer, (0,))}
        drawn = np.concatenate(tape.drawn)
        rounded = np.floor_divide(drawn + int(finer // 2), int(finer))
        assert np.array_equal(np.sort(noise[-1]), np.sort(rounded))
        assert tape.children == (0 if count < PARALLEL_FROM else (processes or 8) - 1)
    assert np.array_equal(*noise)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_draw_beyond_the_lattice_is_refused(kind, monkeypatch):
    """OpenDP saturates near the ends of int64: a saturated value is never released."""
    Tape(monkeypatch)
    far = np.array([LARGEST + 1, 0, 0])
    monkeypatch.setattr(measurements, f"make_{kind}", lambda *_, scale: lambda zeros: far)
    with pytest.raises(GuaranteeError, match="does not fit the lattice"):
        getattr(OsNoise(1), kind)("draws", np.zeros(3, np.int64), SCALE)


@pytest.mark.parametrize("size", [1, 2, 5_000])
def test_a_choice_hands_all_scores_on(size, monkeypatch):
    tape, scores = Tape(monkeypatch), wild(size)
    assert OsNoise().choose("choice", scores, SCALE) == size - 1
    assert tape.asked == {("choose", SCALE)}
    assert list(tape.scores) == scores.tolist()


@for_each("size", [1, 65, 1_000, 100_000])
def test_a_test_draws_one_threshold_and_one_noise_for_each_value(size):
    calls, margins = [], wild(size)

    def laplace(_name, exact, scale):
        calls.append((exact.tolist(), scale))
        return np.arange(exact.size) - (exact.size - 1)  # the threshold is 0: only the last reaches it

    assert first_above(SimpleNamespace(laplace=laplace), "test", margins, SCALE) == size - 1
    assert calls == [([0], SCALE), (margins.tolist(), 2 * SCALE)]
    none = SimpleNamespace(laplace=lambda _name, exact, scale: np.full(exact.shape, -(scale > SCALE)))
    assert first_above(none, "test", margins, SCALE) == size
