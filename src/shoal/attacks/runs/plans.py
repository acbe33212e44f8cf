"""How each adversary can be set: a plan each; its fields are the flags of a command, its docstring the help.

>>> settings_of(UnicityPlan)["sides_m"].words
'Zones merged by squares of this side; 0: as they are.'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from shoal.errors import PlanError
from shoal.kinds.plan import DEFAULT_DELTA
from shoal.privacy.accounting import check_delta, check_epsilon

MOST_POINTS = 50


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a field of a plan is set by a flag; the type is that of the field."""

    words: str
    flag: str = ""  # where it is not the name of the field
    shown: str = ""  # the default in words, where the value itself does not say it
    choices: tuple[str, ...] = ()
    least: int | None = None
    unit: str = ""  # of the values of a list


def setting(default: Any, words: str, **more: Any) -> Any:
    """A field of a plan that the command offers as a flag."""
    return field(default=default, metadata={"setting": Setting(words=words, **more)})


def settings_of(plan: type) -> dict[str, Setting]:
    """The settings of a plan, by the names of their fields, in their order."""
    return {each.name: each.metadata["setting"] for each in fields(plan) if "setting" in each.metadata}


@dataclass(frozen=True, kw_only=True)
class ReleaseAttack:
    """A release to attack: the settings of its plan, its folder, and where the findings go."""

    settings: Mapping[str, Any]
    release: Path
    owner: Path  # the release's owner's folder
    out: Path
    known_from: str | None = None  # inference: since when the adversary watched; None: a week before
    prior: str = "freq_roi"


DEFENCE = "Density methods to protect the counts with."
SET_AT = "What the defences are set at."
DELTA = "Delta of defences that have one."


@dataclass(frozen=True, kw_only=True)
class InferencePlan:
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
    )
    inferences: tuple[str, ...] = setting(
        ("all",),
        "What the adversary does: prior, aggregates, bayes, max_roi, max_user.",
        flag="inference",
    )
    defences: tuple[str, ...] = setting(
        (),
        "Density methods to protect the counts with, such as best, fpa, scm-event, spotme.",
        flag="defence",
    )
    epsilons: tuple[float, ...] = setting((0.1, 1.0), SET_AT, flag="epsilon")
    delta: float = setting(DEFAULT_DELTA, DELTA, shown="1e-6")
    release: Path | None = setting(None, "Attack this release of the inferred time.")  # noqa: RUF009
    seed: int | None = setting(None, "Of the noise of defences, for tests.", least=0)

    def __post_init__(self) -> None:
        from shoal.attacks.models.framework import PRIORS
        from shoal.attacks.models.infer import INFERENCES

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
        _check_defences(self)

    @classmethod
    def of_release(cls, asked: ReleaseAttack) -> tuple[Mapping[str, Any], InferencePlan]:
        """The window of the release is inferred, the time before it observed."""
        window = asked.settings["window"]
        begins = asked.known_from or (datetime.fromisoformat(window["start"]) - timedelta(days=7)).isoformat()
        settings = {**asked.settings, "window": {**window, "start": begins}}
        return settings, cls(split=window["start"], priors=(asked.prior,), release=asked.release)


@dataclass(frozen=True, kw_only=True)
class RecoveryAttackPlan:
    """Recover everybody's trajectory from counts per zone and slot, raw and protected.

    The adversary knows nothing about anybody: only the counts, where zones lie and how many people there
    are. Between events people are taken to stay where they were last seen. Counts below zero become zero;
    every slot is scaled to the number of people and rounded. The figures come from raw events: for the
    owner's eyes only. Nothing is spent.
    """

    release: Path | None = setting(  # noqa: RUF009
        None, "Attack this release, too: of the same zones and slots."
    )
    defences: tuple[str, ...] = setting(("best",), DEFENCE, flag="defence")
    epsilons: tuple[float, ...] = setting((1.0,), SET_AT, flag="epsilon")
    delta: float = setting(DEFAULT_DELTA, DELTA, shown="1e-6")
    known_points: int = setting(
        4, "Places and slots of a person that are known from elsewhere, to single out a trajectory."
    )
    seed: int | None = setting(None, "Of the noise of defences, for tests.", least=0)

    def __post_init__(self) -> None:
        _check_defences(self)

    @classmethod
    def of_release(cls, asked: ReleaseAttack) -> tuple[Mapping[str, Any], RecoveryAttackPlan]:
        return asked.settings, cls(release=asked.release, defences=())


@dataclass(frozen=True, kw_only=True)
class ReconstructPlan:
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
    bits: int = setting(500, "With --demo: private bits.")
    queries: int = setting(2000, "With --demo: subsets asked for.")
    epsilon: float | None = setting(None, "With --demo: for all answers together.", shown="exact answers")
    seed: int = setting(1, "With --demo.", least=0)

    def __post_init__(self) -> None:
        if self.demo == (self.log is not None):
            raise PlanError(
                "attack-log", "give a query log or --demo, one of the two.", "See --help for a log."
            )


@dataclass(frozen=True, kw_only=True)
class MembershipPlan:
    """Tell from counts whether a person is in them, raw and protected.

    Groups of people are drawn from the events and their counts published; the adversary knows other people
    and the visits of a target, and says how likely the target is in. The figures come from raw events: for
    the owner's eyes only. Nothing is spent.
    """

    knows: str = setting(
        "visits",
        "A target's visits for certain, or their habits in the first half of the window.",
        choices=("visits", "past"),
    )
    group: int | None = setting(None, "People in the counts.", shown="a quarter of all, at most 2000")
    worlds: int = setting(20, "Groups that are published.")
    targets: int = setting(100, "People attacked, of few and of many visits.")
    defences: tuple[str, ...] = setting(("best",), DEFENCE, flag="defence")
    epsilons: tuple[float, ...] = setting((1.0,), SET_AT, flag="epsilon")
    delta: float = setting(DEFAULT_DELTA, DELTA, shown="1e-6")
    seed: int = setting(1, "Of groups and noise.", least=0)

    def __post_init__(self) -> None:
        _check_defences(self)
        if self.defences and not self.epsilons:
            raise PlanError("membership-epsilon", "defences need an epsilon.", "Pass --epsilon 1, say.")
        if self.knows not in ("visits", "past"):
            raise PlanError(
                "membership-knows", f"there is no knowledge {self.knows!r}.", "Use visits or past."
            )
        _check_sizes(self)

    @classmethod
    def of_release(cls, asked: ReleaseAttack) -> tuple[Mapping[str, Any], MembershipPlan]:
        """The method and the price of the release, on groups of its people."""
        settings = asked.settings
        plan = cls(
            defences=(settings.get("method") or "best",),
            epsilons=(float(settings["epsilon"]),),
            delta=settings.get("delta") or DEFAULT_DELTA,
            worlds=10,
            targets=50,
        )
        return settings, plan


@dataclass(frozen=True, kw_only=True)
class SyntheticAttackPlan:
    """Tell from synthetic trips whose trips they were made from, and whether they copy them.

    Groups are drawn from the trips and a release is made of each, with seeded noise; the adversary knows the
    trips of a target and other people. The figures come from raw trips: for the owner's eyes only. Nothing is
    spent.
    """

    defences: tuple[str, ...] = setting(
        ("raw", "tgm", "bridges"), "raw, tgm, tgm-counts, tgm-np, or methods of synthesize.", flag="defence"
    )
    epsilons: tuple[float, ...] = setting((1.0,), "What the methods are set at.", flag="epsilon")
    delta: float | None = setting(None, "Delta of mechanisms, 0 for none.", shown="the plan's")
    group: int | None = setting(None, "Users, or trips, in a release.", shown="a quarter, at most 2500")
    worlds: int = setting(12, "Releases that are attacked.")
    targets: int = setting(100, "Attacked in usual, and in unusual places.")
    seed: int = setting(1, "Of groups and noise.", least=0)

    def __post_init__(self) -> None:
        from shoal.attacks.runs.synthetic_defences import defence_named

        for name in self.defences:
            defence_named(name)
        for epsilon in self.epsilons:
            check_epsilon(epsilon)
        if self.delta:
            check_delta(self.delta)
        if not self.defences or not self.epsilons:
            raise PlanError(
                "attack-defence", "there is nothing to attack.", "Pass --defence raw,bridges and --epsilon 1."
            )
        _check_sizes(self)

    @classmethod
    def of_release(cls, asked: ReleaseAttack) -> tuple[Mapping[str, Any], SyntheticAttackPlan]:
        """The method and the price of the release, on groups of its people or trips."""
        method, epsilon = asked.settings.get("method") or "bridges", float(asked.settings["epsilon"])
        return asked.settings, cls(defences=("raw", method), epsilons=(epsilon,), worlds=8, targets=50)


@dataclass(frozen=True, kw_only=True)
class UnicityPlan:
    """Count the people whom a few of their own points tell apart from everybody else.

    A point is a zone and a slot a person was in; known points are drawn at random. The events may be raw, or
    released trajectories. Computed from what is read: for the owner's eyes only. Nothing is spent.
    """

    points: tuple[int, ...] = setting((1, 2, 3, 4), "Points of a person that are known.")
    sides_m: tuple[float, ...] = setting(
        (0.0,), "Zones merged by squares of this side; 0: as they are.", flag="side-m", unit="METRES"
    )
    slots_merged: tuple[int, ...] = setting((1,), "Slots taken as one.")
    seed: int = setting(1, "Of the known points.", least=0)

    def __post_init__(self) -> None:
        if not self.points or not all(1 <= p <= MOST_POINTS for p in self.points):
            raise PlanError(
                "unicity-points", f"points must be from 1 to {MOST_POINTS}.", "Pass --points 1,2,3,4."
            )
        if not self.sides_m or min(self.sides_m) < 0:
            raise PlanError("unicity-side", "sides of squares must be 0 (the zones) or more.", "Pass 0,1000.")
        if not self.slots_merged or min(self.slots_merged) < 1:
            raise PlanError("unicity-slots", "slots merged must be 1 or more.", "Pass 1,24.")

    @classmethod
    def of_release(cls, asked: ReleaseAttack) -> tuple[Mapping[str, Any], UnicityPlan]:
        return asked.settings, cls()


@dataclass(frozen=True, kw_only=True)
class TrackerPlan:
    """Check that k records fit each person's stretch of tau, and measure what more knowledge gives."""

    release: Path
    owner: Path

    @classmethod
    def of_release(cls, asked: ReleaseAttack) -> tuple[Mapping[str, Any], TrackerPlan]:
        return asked.settings, cls(release=asked.release, owner=asked.owner)


def _check_defences(plan: InferencePlan | RecoveryAttackPlan | MembershipPlan) -> None:
    from shoal.kinds.density.methods import any_method

    for name in plan.defences:
        any_method(name)
    for epsilon in plan.epsilons:
        check_epsilon(epsilon)
    check_delta(plan.delta)


def _check_sizes(plan: MembershipPlan | SyntheticAttackPlan) -> None:
    for name, value in (("worlds", plan.worlds), ("targets", plan.targets)):
        if not 2 <= value <= 10_000:
            raise PlanError("membership-size", f"{name} must be from 2 to 10000; got {value}.")
