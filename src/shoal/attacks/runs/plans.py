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
        "Density methods to protect the counts with, such as best or gaussian. Those of a comparison "
        "(scm-event, spotme, ...) give no guarantee to a person, and the result marks them."
    )
    return setting(names, help_text, flag="defence", metavar=NAMES, last=True)


def epsilons_by_default(*epsilons: float) -> Any:
    help_text = "What the defences are set at."
    return setting(epsilons, help_text, flag="epsilon", above=0, metavar=NUMBERS, last=True)


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
        for epsilon in self.epsilons:
            check_epsilon(epsilon)
        check_delta(self.delta)
        if self.defences and not self.epsilons:
            raise PlanError("attack-epsilon", "defences need an epsilon.", "Pass --epsilon 1, say.")


@dataclass(frozen=True, kw_only=True)
class InferencePlan(DefendedPlan):
    """Infer where each person is from what is known of them and from counts, raw and protected.

    The adversary has observed everybody for a while (a prior), then sees counts of the time after. The report
    tells how wrong the adversary is about each person without the counts, with the raw ones, and with
    protected ones. It is computed from raw events: for the owner's eyes only. Nothing is spent.
    """

    split: str | None = setting(
        None,
        "Local time at which observed time ends and inferred time begins.",
        shown="a week before the end",
    )
    priors: tuple[str, ...] = setting(
        ("freq_roi", "roi_day_week", "last_week"),
        "What the adversary knows: freq_roi, roi_day, roi_day_week, time_day, time_day_week, last_hour, "
        "last_day, last_week; or all.",
        flag="prior",
        metavar=NAMES,
    )
    inferences: tuple[str, ...] = setting(
        ("all",),
        "What the adversary does: prior, aggregates, bayes, max_roi, max_user.",
        flag="inference",
        metavar=NAMES,
    )
    release: str | None = setting(
        None, "Attack this release of the inferred time.", metavar="PATH", file=True
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

    The adversary knows nothing about anybody: only the counts, where zones lie and how many people there
    are. Between events people are taken to stay where they were last seen. Counts below zero become zero;
    every slot is scaled to the number of people and rounded. The figures come from raw events: for the
    owner's eyes only. Nothing is spent.
    """

    release: str | None = setting(
        None, "Attack this release, too: of the same zones and slots.", metavar="PATH", file=True
    )
    known_points: int = setting(
        4, "Places and slots of a person that are known from elsewhere, to single out a trajectory."
    )

    @classmethod
    def of_release(cls, attack: ReleaseAttack) -> tuple[Mapping[str, Any], RecoveryAttackPlan]:
        return attack.settings, cls(release=str(attack.release), defences=())


@dataclass(frozen=True, kw_only=True)
class ReconstructPlan(Plan):
    """Find what answers to counting queries disclose.

    LOG has one query a line, as JSON: zones, slots, and if there are any, whom it leaves out (except) and its
    answer. Reported are cells that the queries fix whatever the answers are, queries whose difference counts
    only a few, and from the answers the likely count of each cell. Only the log is read; nothing is spent.
    With --plan the owner's events are read too, to say how many of the counts are right and how many people
    were seen at the zones that a query leaves out.
    """

    log: str | None = None
    fewer_than: int = setting(5, "Report differences about fewer cells or people than this.", least=2)
    most: float | None = setting(None, "Largest count of a cell, if known; 1: bits.", shown="largest answer")
    demo: bool = setting(False, "Random subsets of random bits instead of a log.")
    bits: int = setting(500, "With --demo: private bits.", least=1, most=20_000, code="demo-size")
    queries: int = setting(2000, "With --demo: subsets asked for.", least=1, most=20_000, code="demo-size")
    epsilon: float | None = setting(None, "With --demo: for all answers together.", shown="exact answers")
    seed: int = setting(1, "With --demo.", least=0)

    @rule("demo")
    def _log_or_demo(self) -> None:
        if self.demo == (self.log is not None):
            raise PlanError(
                "attack-log", "give a query log or --demo, one of the two.", "See --help for a log."
            )


@dataclass(frozen=True, kw_only=True)
class MembershipPlan(DefendedPlan):
    """Tell from counts whether a person is in them, raw and protected.

    Groups of people are drawn from the events and their counts published; the adversary knows other people
    and the visits of a target, and says how likely the target is in. The figures come from raw events: for
    the owner's eyes only. Nothing is spent.
    """

    knows: str = setting(
        "visits",
        "A target's visits for certain, or their habits in the first half of the window.",
        choices=("visits", "past"),
        code="membership-knows",
    )
    group: int | None = setting(None, "People in the counts.", shown="a quarter of all, at most 2000")
    worlds: int = setting(20, "Groups that are published.", **SIZE)
    targets: int = setting(100, "People attacked, of few and of many visits.", **SIZE)
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
    """Tell from synthetic trips whose trips they were made from, and whether they copy them.

    Groups are drawn from the trips and a release is made of each, with seeded noise; the adversary knows the
    trips of a target and other people. The figures come from raw trips: for the owner's eyes only. Nothing is
    spent.
    """

    defences: tuple[str, ...] = setting(
        ("raw", "tgm", "bridges"),
        "raw, methods of synthesize, or tgm, tgm-counts and tgm-np, which give no guarantee.",
        flag="defence",
        metavar=NAMES,
    )
    epsilons: tuple[float, ...] = setting(
        (1.0,), "What the methods are set at.", flag="epsilon", above=0, metavar=NUMBERS
    )
    delta: float | None = setting(None, "Delta of mechanisms, 0 for none.", shown="the plan's")
    group: int | None = setting(None, "Users, or trips, in a release.", shown="a quarter, at most 2500")
    worlds: int = setting(12, "Releases that are attacked.", **SIZE)
    targets: int = setting(100, "Attacked in usual, and in unusual places.", **SIZE)
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
        for epsilon in self.epsilons:
            check_epsilon(epsilon)
        if self.delta:
            check_delta(self.delta)

    @classmethod
    def of_release(cls, attack: ReleaseAttack) -> tuple[Mapping[str, Any], SyntheticAttackPlan]:
        """The method and the price of the release, on groups of its people or trips."""
        method, epsilon = attack.settings.get("method") or "bridges", float(attack.settings["epsilon"])
        return attack.settings, cls(defences=("raw", method), epsilons=(epsilon,), worlds=8, targets=50)


@dataclass(frozen=True, kw_only=True)
class UnicityPlan(Plan):
    """Count the people whom a few of their own points tell apart from everybody else.

    A point is a zone and a slot a person was in; known points are drawn at random. The events may be raw, or
    released trajectories. Computed from what is read: for the owner's eyes only. Nothing is spent.
    """

    points: tuple[int, ...] = setting(
        (1, 2, 3, 4),
        "Points of a person that are known.",
        least=1,
        most=MOST_POINTS,
        code="unicity-points",
        metavar=NUMBERS,
    )
    sides_m: tuple[float, ...] = setting(
        (0.0,),
        "Zones merged by squares of this side; 0: as they are.",
        flag="side-m",
        least=0,
        code="unicity-side",
        metavar="METRES,...",
    )
    slots_merged: tuple[int, ...] = setting(
        (1,), "Slots taken as one.", least=1, code="unicity-slots", metavar=NUMBERS
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
    """Check that k records fit each person's stretch of tau, and measure what more knowledge gives."""

    release: Path
    owner: Path

    @classmethod
    def of_release(cls, attack: ReleaseAttack) -> tuple[Mapping[str, Any], TrackerPlan]:
        return attack.settings, cls(release=attack.release, owner=attack.owner)
