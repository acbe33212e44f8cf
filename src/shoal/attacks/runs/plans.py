"""How each adversary can be set: its plan has the settings, which are flags, and the help as docstring.

>>> UnicityPlan(slots_merged=(0,))
Traceback (most recent call last):
shoal.errors.PlanError: unicity-slots: slots_merged must be a whole number of at least 1; got 0.
Pass slots_merged=1, say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from shoal.errors import PlanError
from shoal.kinds.plan import DEFAULT_DELTA
from shoal.privacy.accounting import check_delta, check_epsilon
from shoal.setting import Plan, rule, setting

MOST_POINTS = 50
NAMES, NUMBERS = "NAME,...", "NUMBER,..."
SIZE = {"least": 2, "most": 10_000, "code": "membership-size"}


@dataclass(frozen=True, kw_only=True)
class ReleaseAttack:
    """A release to attack: the settings of its plan, its folder, and where the findings go."""

    settings: Mapping[str, Any]
    release: Path
    owner: Path  # the release's owner's folder
    out: Path
    known_from: str | None = None  # inference: since when the adversary watched; None: a week before
    prior: str = "freq_roi"


def defences_by_default(*names: str) -> Any:
    help_text = (
        "Density methods that protect the counts, such as best or gaussian. Comparators (scm-event, spotme, "
        "...) have no guarantee per person and are marked in the result."
    )
    return setting(names, help_text, flag="defence", metavar=NAMES, last=True)


def epsilons_by_default(*epsilons: float) -> Any:
    help_text = "Values of epsilon of the defences."
    return setting(epsilons, help_text, flag="epsilon", above=0, metavar=NUMBERS, last=True)


def _check_prices(epsilons: tuple[float, ...], delta: float | None) -> None:
    for epsilon in epsilons:
        check_epsilon(epsilon)
    if delta is not None:
        check_delta(delta)


@dataclass(frozen=True, kw_only=True)
class DefendedPlan(Plan):
    """An attack on raw counts, and on those of density methods."""

    defences: tuple[str, ...] = defences_by_default("best")
    epsilons: tuple[float, ...] = epsilons_by_default(1.0)
    delta: float = setting(DEFAULT_DELTA, "Delta of defences that have one.", last=True)
    seed: int | None = setting(None, "Seed of the defences' noise, for tests.", least=0, last=True)

    @rule("defences")
    def _known_defences(self) -> None:
        from shoal.kinds.density.plan import any_method

        for name in self.defences:
            any_method(name)

    @rule("epsilons", "delta")
    def _prices(self) -> None:
        _check_prices(self.epsilons, self.delta)
        if self.defences and not self.epsilons:
            raise PlanError("attack-epsilon", "defences need an epsilon.", "Pass --epsilon 1, say.")


@dataclass(frozen=True, kw_only=True)
class InferencePlan(DefendedPlan):
    """Infer where each person is from a prior and from counts, raw and protected.

    The adversary has observed everybody during a first period (the prior) and knows counts of a second one.
    The report states the adversary's error about each person without counts, with raw counts, and with
    protected counts. It is computed from raw events, so it is for the owner alone. Nothing is spent.
    """

    split: str | None = setting(
        None,
        "Local time at which the observed period ends and the inferred one begins.",
        shown="a week before the end",
    )
    priors: tuple[str, ...] = setting(
        ("freq_roi", "roi_day_week", "last_week"),
        "Prior knowledge: freq_roi, roi_day, roi_day_week, time_day, time_day_week, last_hour, "
        "last_day, last_week; or all.",
        flag="prior",
        metavar=NAMES,
    )
    inferences: tuple[str, ...] = setting(
        ("all",),
        "Inference from the prior and the counts: prior, aggregates, bayes, max_roi, max_user.",
        flag="inference",
        metavar=NAMES,
    )
    release: str | None = setting(
        None, "Folder of a release of the inferred period, attacked too.", metavar="PATH", file=True
    )
    defences: tuple[str, ...] = defences_by_default()
    epsilons: tuple[float, ...] = epsilons_by_default(0.1, 1.0)

    def __post_init__(self) -> None:
        from shoal.attacks.models.framework import PRIORS
        from shoal.attacks.models.infer import INFERENCES

        super().__post_init__()
        for name, known, what in (
            ("priors", PRIORS, "prior"),
            ("inferences", INFERENCES, "inference"),
        ):
            given = known if "all" in getattr(self, name) else getattr(self, name)
            unknown = [each for each in given if each not in known]
            if unknown or not given:
                raise PlanError(
                    f"attack-{what}",
                    f"there is no {what} {unknown[0]!r}." if unknown else f"name at least one {what}.",
                    f"Choose from {', '.join(known)}.",
                )
            object.__setattr__(self, name, given)

    @classmethod
    def of_release(cls, attack: ReleaseAttack) -> tuple[Mapping[str, Any], InferencePlan]:
        """The window of the release is inferred, the time before it observed."""
        window = attack.settings["window"]
        begins = (
            attack.known_from or (datetime.fromisoformat(window["start"]) - timedelta(days=7)).isoformat()
        )
        settings = {**attack.settings, "window": {**window, "start": begins}}
        return settings, cls(split=window["start"], priors=(attack.prior,), release=str(attack.release))


@dataclass(frozen=True, kw_only=True)
class RecoveryAttackPlan(DefendedPlan):
    """Recover everybody's trajectory from counts per zone and slot, raw and protected.

    The adversary has no prior about any person and knows only the counts, the zones and the number of people.
    Between events a person is assumed to stay in the last zone. Negative counts are set to zero; every slot
    is scaled to the number of people and rounded. The figures come from raw events, so they are for the owner
    alone. Nothing is spent.
    """

    release: str | None = setting(
        None, "Folder of a release of the same zones and slots, attacked too.", metavar="PATH", file=True
    )
    known_points: int = setting(
        4, "Known points (zone and slot) of a person, by which a recovered trajectory is singled out."
    )

    @classmethod
    def of_release(cls, attack: ReleaseAttack) -> tuple[Mapping[str, Any], RecoveryAttackPlan]:
        return attack.settings, cls(release=str(attack.release), defences=())


@dataclass(frozen=True, kw_only=True)
class ReconstructPlan(Plan):
    """Reconstruct single counts from answers to counting queries.

    LOG has one JSON object per query: zones, slots, optionally the zones of excluded people (except) and the
    answer. The report lists cells that the queries determine for any answers, pairs of queries that differ by
    a few people or cells only, and a most probable count of each cell, fitted to the answers. Only the log is
    read; nothing is spent. With --plan the owner's events are read too, to compare these counts with the true
    ones and to count the people excluded by each query.
    """

    log: str | None = None
    fewer_than: int = setting(5, "Report differences about fewer cells or people than this.", least=2)
    most: float | None = setting(None, "Largest count of a cell, if known; 1: bits.", shown="largest answer")
    demo: bool = setting(False, "Attack answers to random subsets of random bits instead of a log.")
    bits: int = setting(500, "With --demo: number of private bits.", least=1, most=20_000, code="demo-size")
    queries: int = setting(
        2000, "With --demo: number of random subsets.", least=1, most=20_000, code="demo-size"
    )
    epsilon: float | None = setting(None, "With --demo: epsilon of all answers.", shown="exact answers")
    seed: int = setting(1, "With --demo: seed.", least=0)

    @rule("demo")
    def _log_or_demo(self) -> None:
        if self.demo == (self.log is not None):
            raise PlanError(
                "attack-log", "give a query log or --demo, one of the two.", "See --help for a log."
            )


@dataclass(frozen=True, kw_only=True)
class MembershipPlan(DefendedPlan):
    """Decide from counts, raw and protected, whether a person is among the people counted.

    Random groups of people are counted. The adversary knows the counts of a group, the visits of a target and
    those of other people, and scores the probability that the target is in the group. The figures come from
    raw events, so they are for the owner alone. Nothing is spent.
    """

    knows: str = setting(
        "visits",
        "Prior knowledge: a target's visits, or the target's habits in the first half of the window.",
        choices=("visits", "past"),
        code="membership-knows",
    )
    group: int | None = setting(None, "People in the counts.", shown="a quarter of all, at most 2000")
    worlds: int = setting(20, "Groups that are counted.", **SIZE)
    targets: int = setting(100, "People attacked, with few and with many visits each.", **SIZE)
    seed: int = setting(1, "Seed of groups and noise.", least=0, last=True)

    @classmethod
    def of_release(cls, attack: ReleaseAttack) -> tuple[Mapping[str, Any], MembershipPlan]:
        """The method and the price of the release, on groups of its people."""
        settings = attack.settings
        plan = cls(
            defences=(settings.get("method") or "best",),
            epsilons=(float(settings["epsilon"]),),
            delta=settings.get("delta") or DEFAULT_DELTA,
            worlds=10,
            targets=50,
        )
        return settings, plan


@dataclass(frozen=True, kw_only=True)
class SyntheticAttackPlan(Plan):
    """Decide from synthetic trips whether a person's trips were used to make them, and find copies.

    A release with seeded noise is made of each of several random groups of people. The adversary knows a
    release, the trips of a target and those of other people. The figures come from raw trips, so they are for
    the owner alone. Nothing is spent.
    """

    defences: tuple[str, ...] = setting(
        ("raw", "tgm", "bridges"),
        "raw, methods of synthesize, or tgm, tgm-counts and tgm-np, which give no guarantee.",
        flag="defence",
        metavar=NAMES,
    )
    epsilons: tuple[float, ...] = setting(
        (1.0,), "Values of epsilon of the methods.", flag="epsilon", above=0, metavar=NUMBERS
    )
    delta: float | None = setting(None, "Delta of the methods; 0: pure.", shown="the plan's")
    group: int | None = setting(None, "Users, or trips, in a release.", shown="a quarter, at most 2500")
    worlds: int = setting(12, "Releases that are attacked.", **SIZE)
    targets: int = setting(100, "Targets with usual trips, and as many in unusual places.", **SIZE)
    seed: int = setting(1, "Seed of groups and noise.", least=0)

    @rule("defences")
    def _known_defences(self) -> None:
        from shoal.attacks.runs.synthetic_defences import defence_named

        for name in self.defences:
            defence_named(name)
        if not self.defences or not self.epsilons:
            raise PlanError(
                "attack-defence", "there is nothing to attack.", "Pass --defence raw,bridges and --epsilon 1."
            )

    @rule("epsilons", "delta")
    def _prices(self) -> None:
        _check_prices(self.epsilons, self.delta or None)

    @classmethod
    def of_release(cls, attack: ReleaseAttack) -> tuple[Mapping[str, Any], SyntheticAttackPlan]:
        """The method and the price of the release, on groups of its people or trips."""
        method, epsilon = attack.settings.get("method") or "bridges", float(attack.settings["epsilon"])
        return attack.settings, cls(defences=("raw", method), epsilons=(epsilon,), worlds=8, targets=50)


@dataclass(frozen=True, kw_only=True)
class UnicityPlan(Plan):
    """Share of people whom a few known points distinguish from everybody else.

    A point is a zone and a slot in which a person was; known points are drawn at random. The events may be
    raw or released trajectories. The figures are for the owner alone. Nothing is spent.
    """

    points: tuple[int, ...] = setting(
        (1, 2, 3, 4),
        "Numbers of known points.",
        least=1,
        most=MOST_POINTS,
        code="unicity-points",
        metavar=NUMBERS,
    )
    sides_m: tuple[float, ...] = setting(
        (0.0,),
        "Side of the squares by which zones are merged; 0: not merged.",
        flag="side-m",
        least=0,
        code="unicity-side",
        metavar="METRES,...",
    )
    slots_merged: tuple[int, ...] = setting(
        (1,), "Number of slots merged into one.", least=1, code="unicity-slots", metavar=NUMBERS
    )
    seed: int = setting(1, "Seed of the known points.", least=0)

    @rule("points", "sides_m", "slots_merged")
    def _some(self) -> None:
        if not (self.points and self.sides_m and self.slots_merged):
            raise PlanError(
                "unicity-points", "there is nothing to count.", "Give one number or more of each list."
            )

    @classmethod
    def of_release(cls, attack: ReleaseAttack) -> tuple[Mapping[str, Any], UnicityPlan]:
        return attack.settings, cls()


@dataclass(frozen=True, kw_only=True)
class TrackerPlan:
    """Check that k records fit each person in each period of tau, and measure attacks with more knowledge."""

    release: Path
    owner: Path

    @classmethod
    def of_release(cls, attack: ReleaseAttack) -> tuple[Mapping[str, Any], TrackerPlan]:
        return attack.settings, cls(release=attack.release, owner=attack.owner)
