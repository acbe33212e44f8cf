"""Equal shares of one budget for many releases about the same people.

The rho of n releases adds up: each may spend rho / n, where rho is the largest that (epsilon, delta) allows
for all of them, by the law that the population counts by. Adding up epsilons instead leaves each release
epsilon / n, which is far less.

>>> year = YearPlan(releases=52, epsilon=4.0, delta=1e-6)
>>> year.share_nano * 52 <= year.whole_nano < (year.share_nano + 1) * 52
True
>>> round(year.epsilon_each, 2)                      # of one week, at the same delta
0.47

One plan file per release of a year: the base plan with its share of rho, its window and its folder.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from shoal.errors import PlanError
from shoal.kinds.density.plan import DEFAULT_METHOD, DensityPlan, method_named
from shoal.kinds.plan import DEFAULT_DELTA
from shoal.kinds.setting_forms import toml_value
from shoal.privacy.accounting import (
    GDP,
    LARGEST_EPSILON,
    NANO,
    PURE,
    SMALLEST_DELTA,
    epsilon_for,
    law_at,
    nano,
    rho_for,
)
from shoal.privacy.ledger import Population, Pot
from shoal.release.staging import unwritable
from shoal.setting import Plan, rule, setting, text_of


@dataclass(frozen=True)
class Way:
    """One way to share a budget: share of a release, total of all releases, and relative noise."""

    name: str
    rho_each_nano: int
    epsilon_each: float
    noise: float  # of Gaussian counts, in that of equal shares of rho
    epsilon_year: float  # at the year's delta
    within: bool


@dataclass(frozen=True, kw_only=True)
class YearPlan(Plan):
    """`releases` about the same people within (epsilon, delta), or within `rho` where that is given."""

    releases: int = setting(52, "Number of releases.", (1, 100_000), code="year-releases", example=52)
    epsilon: float | None = setting(
        None,
        "Epsilon of all releases together.",
        above=0,
        most=LARGEST_EPSILON,
        code="epsilon-range",
        example=4.0,
    )
    delta: float = setting(
        DEFAULT_DELTA,
        "Delta of all releases together.",
        least=SMALLEST_DELTA,
        below=1,
        code="delta-range",
        shown=f"the population's, else {text_of(DEFAULT_DELTA)}",
        example=DEFAULT_DELTA,
    )
    rho: float | None = setting(None, "Rho of all releases together, instead of --epsilon.", above=0)
    law: str = GDP  # that the population counts by; zCDP holds where the slack of the noise is too large

    @rule("releases", "epsilon", "delta", "rho")
    def _some_for_each(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise PlanError(
                "year-budget",
                "a year needs its budget, as epsilon and delta or as rho, one of the two.",
                "Pass --epsilon 4 --delta 1e-6, say, or name a population with a budget.",
            )
        if self.whole_nano < self.releases:
            raise PlanError(
                "year-budget",
                "a release would get less than rho = 1e-9.",
                "Raise --epsilon.",
            )

    @cached_property
    def counted_by(self) -> str:
        """The law that the year's rho is converted by."""
        if self.law != GDP:
            return self.law
        epsilon = self.epsilon or epsilon_for(self.whole_of_rho or 0, self.delta, GDP)
        return law_at(epsilon, self.delta)

    @property
    def whole_of_rho(self) -> int | None:
        return None if self.rho is None else nano(self.rho)

    @cached_property
    def whole_nano(self) -> int:
        """rho of all releases together, in 1e-9."""
        return self.whole_of_rho or rho_for(self.epsilon or 0.0, self.delta, self.counted_by)

    @property
    def share_nano(self) -> int:
        """rho of one release, rounded down."""
        return self.whole_nano // self.releases

    @cached_property
    def epsilon_each(self) -> float:
        """Epsilon of one release at the year's delta."""
        return epsilon_for(self.share_nano, self.delta, self.counted_by)

    @cached_property
    def epsilon_year(self) -> float:
        """Epsilon of all releases together at the year's delta."""
        return (
            self.epsilon
            if self.epsilon is not None
            else epsilon_for(self.whole_nano, self.delta, self.counted_by)
        )

    def ways(self) -> tuple[Way, ...]:
        """Equal shares of rho, and other ways to share for comparison."""
        n, epsilon, delta = self.releases, self.epsilon_year, self.delta
        naive = _bought(epsilon / n, delta / n, self.counted_by)
        return (
            self._way("equal shares of rho", self.share_nano, self.epsilon_each),
            self._way("epsilon and delta / n each", naive, epsilon / n),
            self._way("all of epsilon each time", self.whole_nano, epsilon),
        )

    def _way(self, name: str, rho_nano: int, epsilon_each: float) -> Way:
        spent = rho_nano * self.releases
        return Way(
            name=name,
            rho_each_nano=rho_nano,
            epsilon_each=epsilon_each,
            noise=math.sqrt(self.share_nano / rho_nano) if rho_nano else math.inf,
            epsilon_year=epsilon_for(spent, self.delta, self.counted_by),
            within=spent <= self.whole_nano,
        )

    def as_json(self, population: Population | None) -> dict[str, Any]:
        return {
            "releases": self.releases,
            "epsilon": self.epsilon_year,
            "delta": self.delta,
            "rho": self.whole_nano / NANO,
            "each": {
                "rho": self.share_nano / NANO,
                "rho_nano": self.share_nano,
                "epsilon": self.epsilon_each,
            },
            "ways": [
                {**asdict(way), "noise": way.noise if math.isfinite(way.noise) else None}
                for way in self.ways()
            ],
            "ledger": None if population is None else self.in_ledger(population),
        }

    def in_ledger(self, population: Population) -> dict[str, Any]:
        """Rest of the population's budget, and the number of such releases that it allows."""
        pot = rho_pot(population)
        rho = pot.law != PURE
        return {
            "population": population.name,
            "pot": pot.name,
            "currency": pot.currency,
            "limit_nano": pot.limit_nano,
            "left_nano": pot.left_nano,
            "releases_left": pot.left_nano // self.share_nano if rho else None,
            "fits": rho and pot.left_nano >= self.share_nano * self.releases,
        }


def rho_pot(population: Population) -> Pot:
    """The part of a budget that Gaussian releases are paid from."""
    return population.one if population.has_one_limit else population.pots["gaussian"]


def windows(start: date | datetime, releases: int, weeks_each: int) -> list[tuple[str, str]]:
    """Start and end of each release's window, one after the other.

    >>> windows(date(2026, 1, 5), 2, 1)
    [('2026-01-05', '2026-01-12'), ('2026-01-12', '2026-01-19')]
    """
    step = timedelta(weeks=weeks_each)
    return [((start + i * step).isoformat(), (start + (i + 1) * step).isoformat()) for i in range(releases)]


def _bought(epsilon: float, delta: float, law: str) -> int:
    """The rho that (epsilon, delta) allows, in 1e-9; 0 where it is less than 1e-9."""
    try:
        return rho_for(epsilon, delta, law)
    except PlanError:
        return 0


FIRST_LINE = "# One release of a year: shoal density run --plan {name}\n"


def week_settings(
    base: Mapping[str, Any], *, rho_nano: int, delta: float, window: tuple[str, str]
) -> dict[str, Any]:
    """The base plan with a share of rho instead of its epsilon, and a window and a folder of its own."""
    settings = {name: value for name, value in base.items() if name not in ("epsilon", "delta")}
    settings["rho"] = rho_nano / NANO
    if not method_named(base.get("method", DEFAULT_METHOD)).pure:
        settings["delta"] = delta  # what the release is read at; the price is rho
    settings["window"] = {**base.get("window", {}), "start": window[0], "end": window[1]}
    settings["out"] = f"{base.get('out', 'release')}-{window[0]}"
    return settings


def write_week_plans(folder: Path, settings: list[dict[str, Any]]) -> list[Path]:
    """week-01.toml and so on; every plan is checked before the first is written."""
    for each in settings:
        DensityPlan.from_settings(each)
    digits = max(2, len(str(len(settings))))
    paths = [folder / f"week-{i + 1:0{digits}d}.toml" for i in range(len(settings))]
    taken = next((path for path in paths if path.exists()), None)
    if taken is not None:
        raise PlanError("plan-exists", f"{taken} exists; plans are not overwritten.", "Name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, each in zip(paths, settings, strict=True):
            text = FIRST_LINE.format(name=path.name) + to_toml(_relative(each, folder))
            path.write_text(text, "utf-8")
    except OSError as error:
        raise unwritable(folder, error) from error
    return paths


def to_toml(settings: Mapping[str, Any]) -> str:
    """Settings of a plan as TOML: plain values first, then tables.

    >>> print(to_toml({"a": 1, "b": {"c": ("x", 2.5), "d": {"e": True}}}), end="")
    a = 1
    <BLANKLINE>
    [b]
    c = ["x", 2.5]
    <BLANKLINE>
    [b.d]
    e = true
    """
    return "".join(_lines(settings, ""))


def _lines(settings: Mapping[str, Any], name: str):
    plain = {key: value for key, value in settings.items() if not isinstance(value, Mapping)}
    if name and plain:
        yield f"\n[{name}]\n"
    for key, value in plain.items():
        if value is not None:
            yield f"{_key(key)} = {toml_value(value)}\n"
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _lines(value, f"{name}.{_key(key)}" if name else _key(key))


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else toml_value(key)


def _relative(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Paths as seen from the folder the plan lies in."""

    def relative(path: str) -> str:
        return path if os.path.isabs(path) else os.path.relpath(path, folder)

    moved = {**settings, "source": dict(settings["source"]), "space": dict(settings.get("space", {}))}
    moved["source"]["paths"] = [relative(path) for path in moved["source"]["paths"]]
    for part, names in ((moved["space"], ("zones", "sites")), (moved, ("out", "owner"))):
        for name in names:
            if isinstance(part.get(name), str):
                part[name] = relative(part[name])
    return moved
