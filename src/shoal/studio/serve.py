"""The server: 127.0.0.1 alone, a token of its own, bounded connections."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from shoal.errors import OutputError
from shoal.privacy.ledger import open_ledger
from shoal.release.folder import sweep_folder
from shoal.studio.app import create_app
from shoal.studio.context import Studio
from shoal.studio.guard import new_token
from shoal.studio.workspace import Workspace

LOOPBACK = "127.0.0.1"
HEADER_SECONDS = 10.0
MOST_CONNECTIONS = 100
MOST_IDLE = 50  # connections that are open, beyond which the oldest one that only waits is closed
MOST_HEADER = 16 * 1024


class BoundedProtocol(H11Protocol):
    """A connection that does not send a whole head in time is closed: the first one, and every later one.

    Connections that wait for their client (idle, in the middle of a request, not reading the answer) do not
    keep others out: where there are many, the oldest of them is closed for a new one.
    """

    connections: set[BoundedProtocol]  # pyright: ignore[reportIncompatibleVariableOverride]
    _late: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since = self.loop.time()
        self._expect_head()
        if len(self.connections) > MOST_IDLE:
            waiting = [each for each in self.connections if each is not self and each.waits()]
            for oldest in sorted(waiting, key=lambda each: each._since)[:1]:
                self.connections.discard(oldest)
                oldest.transport.abort()

    def waits(self) -> bool:
        """The next step is the client's."""
        cycle = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body or self.flow.write_paused

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._head_came()
        elif self._late is None:
            self._expect_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._since = self.loop.time()
        self._head_came()  # from here the server's own limit on silence counts, until more data comes

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._late = asyncio.get_event_loop().call_later(HEADER_SECONDS, self._close)

    def _head_came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self.transport.close()


def serve_studio(folder: Path, port: int, ready: Callable[[str], None], token: str | None = None) -> None:
    """Serve the page of `folder` until interrupted; `ready` gets the address once it can be opened."""
    work = Workspace.at(Path(folder))
    listening = _listen(port)
    lock = work.lock()
    sweep_folder(open_ledger(), work.root / "releases")
    port = listening.getsockname()[1]
    studio = Studio.at(work, token or new_token(), port)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # nothing of a request is ever logged
    config = uvicorn.Config(
        create_app(studio),
        http=BoundedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=2,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=MOST_HEADER,
    )
    server = _Announcing(config, lambda: ready(address(port, studio.token)), studio.reader.close)
    try:
        server.run(sockets=[listening])
    finally:
        studio.runs.close()
        os.close(lock)


def address(port: int, token: str) -> str:
    """The token is in the fragment: a browser keeps that to itself and never sends it."""
    return f"http://{LOOPBACK}:{port}/#token={token}"


class _Announcing(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], closing: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.ready, self.closing = ready, closing

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.closing()  # else a request that reads a file would be waited for
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready()


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        raise OutputError(
            "port-taken",
            f"port {port} of {LOOPBACK} cannot be used ({error.strerror}).",
            "Another page may run there. Pass another --port, or 0 for any that is free.",
        ) from error
    return listening
