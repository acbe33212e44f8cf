"""Checks of every request, before any other code reads it: its origin, its token and its size.

Host       127.0.0.1 or localhost with our port: a name that somebody else bound to this machine is refused
Origin     ours, where a browser sends one; a page of another site cannot ask in its visitor's name
token      of the session, in a header, for all but the bare page, its scripts and tickets
ticket     an address that opens one file for a short while
type       a request with a body is JSON
size, time a body is small and arrives soon

Tokens and tickets come from the operating system's random numbers and only keep others out.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

TOKEN_HEADER = "x-shoal-token"
MOST_BODY = 256 * 1024
MOST_ADDRESS = 4096
ONCE = ("host", "origin", "sec-fetch-site", "content-length", "content-type", TOKEN_HEADER)
MOST_HEADERS = 16 * 1024
BODY_SECONDS = 10.0
PUBLIC = ("/", "/favicon.ico")
PUBLIC_FOLDER = "/page/"  # scripts and styles: the same for everybody, no data in them
TICKET_FOLDER = "/open/"
WITH_BODY = frozenset(("POST", "PUT", "PATCH", "DELETE"))
KNOWN_METHODS = frozenset(("GET", "HEAD")) | WITH_BODY

# Styles may be inline because charts set them; scripts never are. Nothing may be asked of another host.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message
        super().__init__(code)


@dataclass(frozen=True)
class Guard:
    """An ASGI application around ours."""

    app: App
    token: str
    port: int

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no other protocol is spoken here
        answering = _Answer(send)
        try:
            body = await self._admit(scope, receive)
        except Refused as refused:
            await answering.refuse(refused)
            return
        await self.app(scope, _replay(body, receive), answering)

    async def _admit(self, scope: Message, receive: Receive) -> bytes:
        """The body of a request that may pass."""
        headers = _headers(scope)
        self._check_host(headers)
        self._check_origin(headers)
        if scope["method"] not in KNOWN_METHODS:
            raise Refused(405, "method", "only GET, HEAD, POST and DELETE are answered here.")
        if len(scope["path"]) + len(scope["query_string"]) > MOST_ADDRESS:
            raise Refused(414, "address-too-long", "the address is too long.")
        self._check_token(scope, headers)
        body = await _body(headers, receive)
        if body and headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            raise Refused(415, "content-type", "a request with a body must be application/json.")
        return body

    def _check_host(self, headers: dict[str, str]) -> None:
        if headers.get("host") not in (f"127.0.0.1:{self.port}", f"localhost:{self.port}"):
            raise Refused(421, "host", "this page answers to 127.0.0.1 and localhost on its own port only.")

    def _check_origin(self, headers: dict[str, str]) -> None:
        ours = (f"http://127.0.0.1:{self.port}", f"http://localhost:{self.port}")
        origin = headers.get("origin")
        if origin is not None and origin not in ours:
            raise Refused(403, "origin", "another site asked; only this page may.")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Refused(403, "origin", "another site asked; only this page may.")

    def _check_token(self, scope: Message, headers: dict[str, str]) -> None:
        path = scope["path"]
        reads = scope["method"] in ("GET", "HEAD")
        if reads and (path in PUBLIC or path.startswith((PUBLIC_FOLDER, TICKET_FOLDER))):
            return
        if not same_token(headers.get(TOKEN_HEADER, ""), self.token):
            raise Refused(401, "token", "the address that `shoal studio` printed holds the token; open that.")


def _headers(scope: Message) -> dict[str, str]:
    """Headers by name; a repeated header is refused, since readers may differ on which one counts."""
    headers: dict[str, str] = {}
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS:
        raise Refused(431, "headers-too-large", "the headers are too long.")
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in headers and key in ONCE:
            raise Refused(400, "header-twice", "a header was given twice.")
        headers[key] = value.decode("latin-1")
    return headers


async def _body(headers: dict[str, str], receive: Receive) -> bytes:
    """Body of a request, bounded in size and time."""
    length = headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 12 or int(length) > MOST_BODY:
        raise Refused(413, "body-too-large", f"a request may hold {MOST_BODY // 1024} KiB.")
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "gone", "the connection was closed.")
                part = message.get("body", b"")
                size += len(part)
                if size > MOST_BODY:
                    raise Refused(413, "body-too-large", f"a request may hold {MOST_BODY // 1024} KiB.")
                parts.append(part)
                more = message.get("more_body", False)
    except TimeoutError:
        raise Refused(408, "too-slow", "the request did not arrive in time.") from None
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read already, then whatever comes: the end of the connection."""
    replayed = False

    async def again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


class _Answer:
    """Adds the headers that every answer has, unless the application set its own."""

    def __init__(self, send: Send) -> None:
        self.send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            there = {name.decode("latin-1").lower() for name, _ in headers}
            more = {"content-security-policy": PAGE_POLICY, **HEADERS}
            headers += [(name.encode(), value.encode()) for name, value in more.items() if name not in there]
            message = {**message, "headers": headers}
        await self.send(message)

    async def refuse(self, refused: Refused) -> None:
        body = json.dumps({"code": refused.code, "message": refused.message, "remedy": ""}).encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await self({"type": "http.response.start", "status": refused.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


TICKET_SECONDS = 120
MOST_TICKETS = 200


def new_token() -> str:
    return secrets.token_urlsafe(32)


def same_token(given: str, token: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def new_name() -> str:
    """The name of a run."""
    return secrets.token_hex(8)


@dataclass(frozen=True)
class Ticket:
    """What may be opened: a page to look at, or a file or folder to save."""

    path: Path
    save_as: str | None  # None: shown in a tab of its own
    until: float


@dataclass
class Tickets:
    """A browser cannot send our header when it opens a tab or saves a file; a ticket stands for it."""

    _open: dict[str, Ticket] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def issue(self, path: Path, save_as: str | None = None) -> str:
        name, now = secrets.token_urlsafe(32), time.monotonic()
        with self._lock:
            self._open = {key: each for key, each in self._open.items() if each.until > now}
            while len(self._open) >= MOST_TICKETS:
                self._open.pop(next(iter(self._open)))
            self._open[name] = Ticket(path, save_as, now + TICKET_SECONDS)
        return name

    def find(self, name: str) -> Ticket | None:
        with self._lock:
            ticket = self._open.get(name)
        return ticket if ticket is not None and ticket.until > time.monotonic() else None
