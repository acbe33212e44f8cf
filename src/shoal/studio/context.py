"""State of the server that all routers share."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi import Request

from shoal.privacy.ledger import Ledger, open_ledger
from shoal.studio.guard import Tickets
from shoal.studio.look import StoredRelease, release_named
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
    _stored: dict[str, StoredRelease] = field(default_factory=dict)

    @classmethod
    def at(cls, work: Workspace, token: str, port: int, runs: Runs | None = None) -> Studio:
        reader = Reader(work.root)
        shelf = SourceShelf(work, reader)
        return cls(work, token, port, runs or Runs(work), shelf, Planner(work, shelf, reader), reader)

    def ledger(self) -> Ledger:
        """Opened for each request, as the command does: another process may have written to it."""
        return open_ledger()

    def release(self, name: str) -> StoredRelease:
        """A release by the hash of its manifest. It is in the ledger for good, so it is looked up once."""
        stored = self._stored.get(name)
        if stored is None or not stored.is_there():
            stored = release_named(self.work, self.ledger(), name)
            self._stored[name] = stored
        return stored


def studio_of(request: Request) -> Studio:
    return request.app.state.studio
