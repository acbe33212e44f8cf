"""The unit of privacy: whose whole contribution the guarantee covers."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.errors import PlanError


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
        if not self.name.strip() or "\n" in self.name:
            raise PlanError("unit-name", "the unit of privacy needs a name on one line.", "Pass --unit user.")

    @property
    def sentence(self) -> str:
        if self.name == "user":
            return "One user: all events of one person in the window."
        return (
            f'One {self.name}: all events with one value of the column "{self.column}". '
            "As declared by the owner, this is not a person, and no promise per person is made."
        )
