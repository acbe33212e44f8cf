"""Help texts, keys, manifests and noise scales are those recorded in `now` (see record.py)."""

import json
import math

import pytest
from tests.golden.record import (
    NOW,
    RELEASES,
    ULPS,
    arguments,
    caught,
    help_texts,
    key_and_manifest,
    scales,
    world,
)
from tests.loops import for_each

from shoal.auditing.planted.mutants import planted
from shoal.mechanisms.registry import REGISTRY

SCALES = json.loads((NOW / "scales.json").read_text("utf-8"))
PLANTED = json.loads((NOW / "planted.json").read_text("utf-8"))
RUNS = json.loads((NOW / "runs.json").read_text("utf-8"))
IN_EVERY_RUN = ("density-best", "histogram-boxes", "synthetic-commute", "query-laplace")


def test_help_scales_and_planted_bugs_are_those_recorded():
    assert help_texts() == (NOW / "help.txt").read_text("utf-8")
    assert set(SCALES) == set(REGISTRY)
    assert {name: {mutant.name for mutant in planted(name)} for name in SCALES} == {
        name: set(bugs) for name, bugs in PLANTED.items()
    }


@for_each("name", SCALES)
def test_noise_has_its_recorded_scale(name):
    found = scales(name)
    assert found.keys() == SCALES[name].keys()
    for budget, recorded in SCALES[name].items():
        assert [(name, kind) for name, kind, _ in found[budget]] == [
            (name, kind) for name, kind, _ in recorded
        ]
        for (call, _, now), (_, _, then) in zip(found[budget], recorded, strict=True):
            assert abs(now - then) <= ULPS * math.ulp(then), (budget, call)


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each in IN_EVERY_RUN else pytest.mark.exhaustive) for each in RELEASES],
)
def test_a_run_has_its_recorded_key_and_manifest(name, tmp_path, monkeypatch, command):
    world(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))
    code, _, error = command(*arguments(name))
    assert code == 0, error
    assert key_and_manifest(tmp_path, name) == RUNS[name]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PLANTED)
def test_every_planted_bug_is_caught_as_recorded(name):
    assert caught(name) == PLANTED[name]
