"""How a flow tells how far it is; the command draws bars with it, a library user may leave it out."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def stage(self, name: str, total: float | None = None) -> None:
        """A new stage begins; `total` in whatever `advance` counts, None where it is not known."""
        ...

    def advance(self, amount: float) -> None: ...


class Silent:
    def stage(self, name: str, total: float | None = None) -> None:
        pass

    def advance(self, amount: float) -> None:
        pass
