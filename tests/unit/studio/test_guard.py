"""Every request is looked at before anything else sees it."""

import asyncio
import json
import subprocess
import sys

from tests.loops import for_each

from shoal.studio import guard
from shoal.studio.guard import MOST_TICKETS, Guard, Tickets, new_token, same_token

TOKEN = "t" * 43
GOOD = {"host": "127.0.0.1:8765", "x-shoal-token": TOKEN}


async def behind(scope, receive, send):
    """An application that says what reached it."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def ask(path="/api/state", method="GET", headers=GOOD, body=b"", parts=None, query=b""):
    """Status, headers and body of the answer."""
    told = {}
    pending = list(parts or [body])

    async def receive():
        part = pending.pop(0)
        if part is None:
            await asyncio.sleep(10)
        return {"type": "http.request", "body": part, "more_body": bool(pending)}

    async def send(message):
        if message["type"] == "http.response.start":
            told["status"] = message["status"]
            told["headers"] = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            told["body"] = message.get("body", b"")

    pairs = headers if isinstance(headers, list) else list(headers.items())
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in pairs],
    }
    asyncio.run(Guard(behind, TOKEN, 8765)(scope, receive, send))
    return told


def test_a_good_request_passes_and_headers_come_once():
    told = ask(method="POST", headers={**GOOD, "content-type": "application/json"}, body=b"{}")
    assert told["status"] == 200
    assert told["body"] == b"{}"
    for name, value in (("host", "evil.example"), ("x-shoal-token", TOKEN), ("content-length", "0")):
        pairs = [*GOOD.items(), (name, value), (name, value)]
        assert ask(headers=pairs)["status"] == 400


@for_each(
    ("status", "changed"),
    [
        (421, {"host": "evil.example"}),
        (421, {"host": "evil.example:8765"}),
        (421, {"host": "127.0.0.1"}),
        (421, {"host": "127.0.0.1:80"}),
        (421, {"host": "127.0.0.1:8765.evil.example"}),
        (421, {"host": "0.0.0.0:8765"}),
        (421, {"host": ""}),
        (403, {"origin": "http://evil.example"}),
        (403, {"origin": "null"}),
        (403, {"origin": "http://127.0.0.1:8766"}),
        (403, {"origin": "https://127.0.0.1:8765"}),
        (403, {"sec-fetch-site": "cross-site"}),
        (403, {"sec-fetch-site": "same-site"}),
        (401, {"x-shoal-token": "wrong"}),
        (401, {"x-shoal-token": ""}),
        (401, {"x-shoal-token": TOKEN + "x"}),
        (401, {"x-shoal-token": "\xff\xfe"}),
    ],
)
def test_wrong_host_origin_and_token_are_refused(status, changed):
    told = ask(headers={**GOOD, **changed})
    assert told["status"] == status
    assert json.loads(told["body"])["message"]


def test_without_a_token_only_the_bare_page_its_scripts_and_tickets_are_there():
    host = {"host": "localhost:8765"}
    for path in ("/", "/page/app.js", "/open/abc", "/favicon.ico"):
        assert ask(path, headers=host)["status"] == 200
    for path in ("/api/state", "/api/openapi.json", "/openapi.json", "/docs", "/anything", "//", "/page"):
        assert ask(path, headers=host)["status"] == 401
    assert ask("/", method="POST", headers=host)["status"] == 401


@for_each("method", ["OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_other_methods_are_refused(method):
    assert ask(method=method)["status"] == 405


@for_each("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_must_be_json(kind):
    assert ask(method="POST", headers={**GOOD, "content-type": kind}, body=b"{}")["status"] == 415


def test_bodies_and_addresses_are_bounded():
    headers = {**GOOD, "content-type": "application/json"}
    large = str(guard.MOST_BODY + 1)
    assert ask(method="POST", headers={**headers, "content-length": large})["status"] == 413
    assert ask(method="POST", headers={**headers, "content-length": "-1"})["status"] == 413
    assert ask(method="POST", headers={**headers, "content-length": "9" * 30})["status"] == 413
    streamed = [b"x" * 100_000] * 4
    assert ask(method="POST", headers=headers, parts=streamed)["status"] == 413
    assert ask(query=b"a" * 5000)["status"] == 414


def test_a_body_must_arrive_soon(monkeypatch):
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)
    headers = {**GOOD, "content-type": "application/json"}
    assert ask(method="POST", headers=headers, parts=[b"{", None])["status"] == 408


def test_every_answer_forbids_other_hosts_and_frames():
    for told in (ask(), ask(headers={"host": "evil.example"})):
        policy = told["headers"]["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert told["headers"]["x-content-type-options"] == "nosniff"
        assert told["headers"]["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in told["headers"]


def test_no_other_protocol_is_spoken_and_tokens_are_long_and_new():
    said = []

    async def talk():
        async def send(message):
            said.append(message)

        await Guard(behind, TOKEN, 8765)({"type": "websocket"}, None, send)

    asyncio.run(talk())
    assert said == []
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 43
    assert same_token("abc", "abc")
    assert not same_token("abd", "abc")


def test_tickets_expire_and_do_not_pile_up(tmp_path, monkeypatch):
    tickets = Tickets()
    names = [tickets.issue(tmp_path) for _ in range(MOST_TICKETS + 5)]
    assert tickets.find(names[0]) is None
    assert tickets.find(names[-1]) is not None
    tickets = Tickets()
    name = tickets.issue(tmp_path)
    assert tickets.find(name).path == tmp_path
    assert tickets.find("other") is None
    now = guard.time.monotonic()
    monkeypatch.setattr(guard.time, "monotonic", lambda: now + guard.TICKET_SECONDS + 1)
    assert tickets.find(name) is None


HEAVY = {"numba", "scipy", "opendp", "plotly", "rich", "shoal.events.simulate", "shoal.kinds.density.prepare"}


def test_the_server_starts_without_what_only_requests_need():
    code = "import sys, shoal.studio.serve; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not HEAVY & set(loaded.split())
