"""Power cuts during a release: nothing acknowledged is lost, nothing is visible without its spend."""

import random
import shutil

import pytest
from tests.fuzz.powercut import FIXED_ROOT, Effect, cut, cut_in_place, fixture_effects, record_now
from tests.fuzz.run import run
from tests.loops import for_each

pytestmark = pytest.mark.skipif(
    not FIXED_ROOT.parent.is_dir(), reason="needs the memory file system of Linux"
)


@pytest.mark.parametrize("count", [120, pytest.param(2000, marks=pytest.mark.exhaustive)])
def test_cuts_lose_and_show_nothing_they_must_not(count: int) -> None:
    assert run("powercut", count) == {}


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.exhaustive)])
def test_cuts_of_the_code_as_it_is(count: int) -> None:
    root, effects = record_now()
    marks = [effect[1] for effect in effects if effect[0] == "mark"]
    assert marks == [effect[1] for effect in fixture_effects() if effect[0] == "mark"]
    for number in range(count):
        cut(effects, root, random.Random(f"now:{number}"))


@for_each(
    ("names", "said"),
    [
        (["place", "of"], "a release was lost"),  # parents that the release made
        (["week-1", "week-2"], "a release was lost"),  # where it is moved to
        (["density.csv", "maps"], "cut after"),
        (["ledger.sqlite"], "cut after"),
    ],
)
def test_a_release_without_these_syncs_fails(names: list[str], said: str) -> None:
    effects = fixture_effects()
    of = {each[3] for each in effects if each[0] == "link" and each[2] in names}
    unsynced = [each for each in effects if each[0] != "sync" or each[1] not in of]
    with pytest.raises(AssertionError, match=said):
        cut_often(unsynced, 200)


def cut_often(effects: list[Effect], count: int) -> None:
    for number in range(count):
        cut_in_place(effects, random.Random(f"unsynced:{number}"))
