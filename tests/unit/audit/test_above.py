"""The sparse vector test in the audit: its exact loss, its probabilities, its lower bound, a broken one."""

from fractions import Fraction

import numpy as np
import pytest

from shoal.auditing.lower_bounds import Query, above_probabilities, bounds, sample
from shoal.auditing.replay import ArbitraryNoise, Call, RecordingNoise, ReplayNoise, transcript_loss
from shoal.privacy.noise import SeededNoise, first_above

SCALE = 1000.0
BEFORE = np.array([3000] * 5 + [-6000], np.int64)


def call(margins):
    return Call("above", "test", np.array(margins, np.int64), 8.0, 0)


def test_the_loss_is_twice_the_largest_change_however_many_values_move():
    rho, pure = transcript_loss([call([0, 5, 2])], [call([3, 1, 2])])
    assert (rho, pure) == (Fraction(1, 2), Fraction(1))
    assert transcript_loss([call([0] * 500)], [call([4] * 500)])[1] == Fraction(1)


def test_recorded_indices_are_handed_out_again_and_single_draws_are_not_seen():
    recorded = RecordingNoise(SeededNoise(1), bytes(16))
    found = first_above(recorded, "test", BEFORE, SCALE)
    assert [each.kind for each in recorded.calls] == ["above"]
    replayed = ReplayNoise(recorded.calls, bytes(16))
    assert first_above(replayed, "test", BEFORE - 10**6, SCALE) == found


def test_arbitrary_answers_reach_every_index_and_none():
    noise = ArbitraryNoise()
    assert {first_above(noise, "test", BEFORE, SCALE) for _ in range(20)} == set(range(7))


def test_probabilities_are_those_of_many_runs():
    noise = SeededNoise(2)
    runs = 20_000
    seen = np.bincount([first_above(noise, "test", BEFORE // 3, SCALE) for _ in range(runs)], minlength=7)
    expected = above_probabilities(BEFORE // 3, SCALE)
    assert expected.sum() == pytest.approx(1.0)
    assert np.abs(seen / runs - expected).max() < 5 * np.sqrt(0.25 / runs)


class SmallOnValues(SeededNoise):
    """The values' noise at a tenth of its scale: caught by the runs, since replay trusts the primitive."""

    def first_above(self, name, margins, scale):
        threshold = self.laplace(name, np.zeros(1, np.int64), scale)
        found = np.flatnonzero(self.laplace(name, margins, scale / 5) >= threshold[0])
        return int(found[0]) if found.size else margins.size


@pytest.mark.parametrize(("kind", "above"), [(SeededNoise, False), (SmallOnValues, True)])
def test_the_lower_bound_stays_below_the_claim_unless_the_test_is_broken(kind, above):
    change = np.array([-400] * 5 + [400])
    query = Query("above", "test", SCALE, BEFORE // 30, BEFORE // 30 + change)
    found = bounds(*sample([query], kind(3), 20_000), 0.0)
    assert (found.epsilon > 2 * 400 / SCALE) == above
