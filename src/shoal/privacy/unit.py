"""The unit of privacy: whose whole contribution the guarantee covers."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.errors import PlanError
from shoal.privacy.ledger.names import skeleton

TRIP = "trip"  # one trip of one user
_PERSONS = {skeleton(name) for name in ("person", "persons", "people", "subscriber", "subscribers")}


@dataclass(frozen=True)
class Unit:
    """One user by default; the owner may declare another where a person cannot be told.

    Contributions are bounded per value of the column that plays the role `user`. So another unit needs that
    column named: it must hold one value per unit.

    >>> Unit().sentence
    'One user: all events of one person in the window.'
    >>> print(Unit("vehicle-day", "shift").sentence[:65])
    One vehicle-day: all events with one value of the column "shift".
    """

    name: str = "user"
    column: str = "user"

    def __post_init__(self) -> None:
        if self.name != self.name.strip() or not self.name or not self.name.isprintable():
            raise PlanError(
                "unit-name",
                f"the unit of privacy needs a name on one line, without space around it; got {self.name!r}.",
                "Pass --unit user.",
            )
        if skeleton(self.name) in _PERSONS:
            raise PlanError(
                "plan-unit",
                "where the promise covers a person, the unit is called user.",
                "Pass --unit user.",
            )
        for known in ("user", TRIP):
            if self.name != known and skeleton(self.name) in (skeleton(known), skeleton(f"{known}s")):
                raise PlanError("plan-unit", f"no unit is called {self.name!r}.", f"Did you mean {known}?")

    @property
    def sentence(self) -> str:
        if self.name == "user":
            return "One user: all events of one person in the window."
        return (
            f'One {self.name}: all events with one value of the column "{self.column}". '
            "As declared by the owner, this is not a person, and no promise per person is made."
        )


def declared_size(value: int) -> int:
    """A size that the owner declares, as it is used and printed: rounded to two significant digits.

    A courtesy to an owner who types a count from the data. It is no guarantee.

    >>> [declared_size(value) for value in (7, 42, 397, 99_500, 145_000)]
    [7, 42, 400, 100000, 150000]
    """
    step = 10 ** max(len(str(value)) - 2, 0)
    return (value + step // 2) // step * step
