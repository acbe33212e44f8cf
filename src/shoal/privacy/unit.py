"""The unit of privacy: whose whole contribution the guarantee covers."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.errors import PlanError


@dataclass(frozen=True)
class Unit:
    """One user by default; the owner may declare another where a person cannot be told.

    >>> Unit().sentence
    'One user: all events of one person in the window.'
    >>> Unit("vehicle-day").sentence
    'One vehicle-day, as declared by the owner; this is not a person and no promise per person is made.'
    """

    name: str = "user"

    def __post_init__(self) -> None:
        if not self.name.strip() or "\n" in self.name:
            raise PlanError("unit-name", "the unit of privacy needs a name on one line.", "Pass --unit user.")

    @property
    def sentence(self) -> str:
        if self.name == "user":
            return "One user: all events of one person in the window."
        return (
            f"One {self.name}, as declared by the owner; "
            "this is not a person and no promise per person is made."
        )
