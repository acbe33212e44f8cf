"""Interval queries against brute force over all data sets."""

import inspect
import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from shoal.errors import PlanError
from shoal_baselines.attacks import interval_audit
from shoal_baselines.attacks.interval_attack import bit_bounds, consistent_data, fixed_given_data
from shoal_baselines.attacks.interval_audit import (
    IntervalAuditor,
    disclosed_at_worst,
    disclosed_linearly,
    probability_of_disclosure,
)


def all_data(bits):
    return np.array(list(itertools.product((0, 1), repeat=bits)), np.int64)


def matrix(bits, intervals):
    rows = np.zeros((len(intervals), bits), np.int64)
    for row, (first, end) in zip(rows, intervals, strict=True):
        row[first:end] = 1
    return rows


def fixed_by_brute_force(bits, intervals):
    """bool [data sets, bits]: whether all data sets with the same answers agree on a bit."""
    data = all_data(bits)
    _, same = np.unique(data @ matrix(bits, intervals).T, axis=0, return_inverse=True)
    fixed = np.zeros((len(data), bits), bool)
    for group in range(same.max() + 1):
        members = same.ravel() == group
        fixed[members] = (data[members] == data[members][0]).all(axis=0)
    return data, fixed


def some_logs(bits, count, seed):
    generator = np.random.default_rng(seed)
    for _ in range(count):
        ends = np.sort(generator.integers(0, bits + 1, (generator.integers(0, bits), 2)), axis=1)
        yield [(int(a), int(b)) for a, b in ends if a < b]


@pytest.mark.parametrize("bits", [1, 2, 5, 8])
def test_notions_agree_with_all_data_sets(bits):
    for log in some_logs(bits, 40, seed=bits):
        data, fixed = fixed_by_brute_force(bits, log)
        assert disclosed_linearly(bits, log).tolist() == fixed.all(axis=0).tolist()  # for every data set
        assert disclosed_at_worst(bits, log).tolist() == fixed.any(axis=0).tolist()  # for some data set
        for each, expected in zip(
            data[:: max(1, len(data) // 16)], fixed[:: max(1, len(data) // 16)], strict=True
        ):
            assert fixed_given_data(each, log).tolist() == expected.tolist()


def test_probabilities_are_shares_of_data_sets_that_there_are():
    log = [(0, 3), (2, 6), (5, 8)]
    _, fixed = fixed_by_brute_force(8, log)
    found = probability_of_disclosure(8, log, draws=4000, seed=3)
    assert np.abs(found - fixed.mean(axis=0)).max() < 0.04
    assert fixed.mean() > 0.04  # else the test could not fail
    assert (probability_of_disclosure(8, log, share_of_ones=0, draws=1) == 1).all()
    with pytest.raises(PlanError, match="audit-inconsistent"):
        consistent_data(4, [(0, 2), (0, 4)], [2, 1])
    with pytest.raises(PlanError, match="audit-answers"):
        consistent_data(4, [(0, 2)], [])


def test_the_auditor_refuses_what_brute_force_says_is_disclosed():
    refused = 0
    for log in some_logs(7, 60, seed=5):
        auditor = IntervalAuditor(7)
        for new in log:
            before = auditor.answered.copy()
            _, fixed = fixed_by_brute_force(7, [*before, new])
            assert auditor.would_disclose(*new) == tuple(np.flatnonzero(fixed.all(axis=0)))
            assert (
                IntervalAuditor(7, before).may_answer(*new)
                == auditor.ask(*new)
                == (not fixed.all(axis=0).any())
            )
            refused += new not in auditor.answered
        assert auditor.disclosed() == ()
    assert refused > 20


def test_bounds_are_exact_and_equal_to_two_programs_per_bit():
    generator = np.random.default_rng(2)
    for log in some_logs(8, 25, seed=11):
        truth = generator.integers(0, 2, 8)
        answers = matrix(8, log) @ truth
        data = all_data(8)
        possible = data[(data @ matrix(8, log).T == answers).all(axis=1)]
        found = bit_bounds(8, log, answers.tolist())
        assert found.tolist() == [possible.min(axis=0).tolist(), possible.max(axis=0).tolist()]
        if log:
            for bit in range(8):
                cost = np.eye(8)[bit]
                ends = [
                    sign * linprog(sign * cost, A_eq=matrix(8, log), b_eq=answers, bounds=(0, 1)).fun
                    for sign in (1, -1)
                ]
                assert np.allclose(ends, found[:, bit])


def test_no_answer_can_reach_the_auditor():
    """Simulatable: no parameter of the module is an answer or data; equal queries, equal decisions."""
    allowed = {"self", "bits", "answered", "first", "end", "new", "intervals", "interval"}
    prior = {"share_of_ones", "draws", "seed"}
    for name, found in inspect.getmembers(interval_audit):
        if getattr(found, "__module__", "") != interval_audit.__name__:
            continue
        functions = (
            [found]
            if inspect.isfunction(found)
            else [f for _, f in inspect.getmembers(found, inspect.isfunction)]
        )
        for function in functions:
            extra = set(inspect.signature(function).parameters) - allowed
            assert extra <= (prior if name == "probability_of_disclosure" else set()), (name, extra)
    log = next(log for log in some_logs(9, 50, seed=1) if len(log) > 5)
    one, other = IntervalAuditor(9), IntervalAuditor(9)
    assert [one.ask(*each) for each in log] == [other.ask(*each) for each in log]
    # Queries are pairs: a third value, an answer say, has no place.
    with pytest.raises(ValueError, match="unpack"):
        IntervalAuditor(9, [(0, 3, 2)])


@pytest.mark.parametrize("bad", [(0, 0), (3, 2), (-1, 2), (0, 11)])
def test_bad_intervals_are_refused(bad):
    with pytest.raises(PlanError, match="audit-interval"):
        IntervalAuditor(10).may_answer(*bad)
