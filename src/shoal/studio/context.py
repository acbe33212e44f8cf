"""What every room of the server shares."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi import Request

from shoal.privacy.ledger import Ledger, open_ledger
from shoal.studio.guard import Tickets
from shoal.studio.look import Found, release_named
from shoal.studio.plans import Planner
from shoal.studio.reading import Reader
from shoal.studio.runs import Runs
from shoal.studio.sources import SourceShelf
from shoal.studio.workspace import Workspace


@dataclass
class Studio:
    """One server: its folder, its runs, its token."""

    work: Workspace
    token: str
    port: int
    runs: Runs
    shelf: SourceShelf
    planner: Planner
    reader: Reader
    tickets: Tickets = field(default_factory=Tickets)
    _found: dict[str, Found] = field(default_factory=dict)

    @classmethod
    def at(cls, work: Workspace, token: str, port: int, runs: Runs | None = None) -> Studio:
        reader = Reader(work.root)
        shelf = SourceShelf(work, reader)
        return cls(work, token, port, runs or Runs(work), shelf, Planner(work, shelf, reader), reader)

    def ledger(self) -> Ledger:
        """Opened for each request, as the command does: another process may have written to it."""
        return open_ledger()

    def release(self, name: str) -> Found:
        """A release by the hash of its manifest. It is in the ledger for good, so it is looked up once."""
        found = self._found.get(name)
        if found is None or not found.is_there():
            found = release_named(self.work, self.ledger(), name)
            self._found[name] = found
        return found


def studio_of(request: Request) -> Studio:
    return request.app.state.studio
