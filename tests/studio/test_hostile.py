"""Hostile requests to a live server: every one is refused, and it goes on answering."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from tests.loops import tiers
from tests.studio.conftest import Live


@pytest.fixture(scope="module")
def one_server(tmp_path_factory):
    """A server that refuses what is asked of it here, and so is the same for every test."""
    place = tmp_path_factory.mktemp("hostile")
    environment = {**os.environ, "SHOAL_LEDGER": str(place / "ledger.sqlite")}
    server = Live(place / "work", environment)
    yield server
    server.stop()


def raw(port, text, seconds=5.0):
    """The answer to bytes sent as they are; empty where the connection was only closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        connection.sendall(text)
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except TimeoutError:
            return answer + b"(still open)"
        except ConnectionResetError:
            pass
        return answer


def request(live, path="/api/state", method="GET", more="", host=None, token=None, body=""):
    host = f"127.0.0.1:{live.port}" if host is None else host
    token = live.token if token is None else token
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nx-shoal-token: {token}\r\n"
    head += f"{more}Connection: close\r\n\r\n"
    return raw(live.port, (head + body).encode("latin-1"))


def status(answer):
    return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/") else 0


def test_all_hostile_requests_are_refused(one_server):
    (one_server.folder.parent / "secret.csv").write_text("user,time\n1,2\n")
    (one_server.folder / "link.csv").symlink_to(one_server.folder.parent / "secret.csv")
    json_type = "Content-Type: application/json\r\n"
    huge = f"{json_type}Content-Length: {10**9}\r\n"
    refused = {
        "another host": request(one_server, host="evil.example"),
        "a host bound to us": request(one_server, host=f"evil.example:{one_server.port}"),
        "no port": request(one_server, host="127.0.0.1"),
        "another site": request(one_server, more="Origin: https://evil.example\r\n"),
        "a sandboxed site": request(one_server, more="Origin: null\r\n"),
        "cross-site": request(one_server, more="Sec-Fetch-Site: cross-site\r\n"),
        "no token": request(one_server, token=""),
        "a wrong token": request(one_server, token="A" * 43),
        "a token in the query": request(one_server, path=f"/api/state?token={one_server.token}", token=""),
        "two hosts": request(one_server, more="Host: evil.example\r\n"),
        "preflight": request(one_server, method="OPTIONS", more="Origin: https://evil.example\r\n"),
        "trace": request(one_server, method="TRACE"),
        "a huge body": request(one_server, "/api/plan", "POST", huge),
        "a form": request(
            one_server,
            "/api/simulate",
            "POST",
            "Content-Type: text/plain\r\nContent-Length: 2\r\n",
            body="{}",
        ),
        "not JSON": request(
            one_server, "/api/simulate", "POST", f"{json_type}Content-Length: 1\r\n", body="{"
        ),
        "traversal in files": request(one_server, "/api/files?under=../.."),
        "an absolute path": request(one_server, "/api/files?under=/etc"),
        "a link out": request(one_server, "/api/files?under=link.csv"),
        "traversal in the address": request(one_server, "/page/../../../../etc/passwd", token=""),
        "encoded traversal": request(one_server, "/page/..%2f..%2fguard.py", token=""),
        "a ticket nobody gave": request(one_server, "/open/" + "A" * 43, token=""),
        "a long address": request(one_server, "/api/files?under=" + "a" * 9000),
        "a long head": request(one_server, more=f"X-Long: {'a' * 70_000}\r\n"),
        "an upgrade": request(one_server, more="Upgrade: websocket\r\nConnection: Upgrade\r\n", token=""),
        "no HTTP": raw(one_server.port, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    }
    statuses = {name: status(answer) for name, answer in refused.items()}
    assert {name: code for name, code in statuses.items() if code and not 400 <= code < 500} == {}
    assert [name for name, code in statuses.items() if code == 0] in ([], ["no HTTP"])
    assert all(b"secret" not in answer and b"root:" not in answer for answer in refused.values())
    assert one_server.get("/state").status_code == 200


def test_sources_outside_the_folder_are_refused(live, tmp_path):
    (tmp_path / "secret.csv").write_text("user,time,lon,lat\n1,2026-03-02T00:00Z,2,48\n")
    (tmp_path / "work" / "link.csv").symlink_to(tmp_path / "secret.csv")
    (tmp_path / "work" / "folder").mkdir()
    (tmp_path / "work" / "folder" / "in.csv").symlink_to(tmp_path / "secret.csv")
    (tmp_path / "work" / "ok.csv").write_text("user,time,lon,lat\n1,2026-03-02T00:00Z,2,48\n")
    for path in ("../secret.csv", "link.csv", "/etc/passwd", "folder/*.csv", "folder"):
        told = live.post("/sources", {"name": "a", "paths": [path]})
        assert told.json()["code"] == "outside-folder", path
    for path in ("../secret.csv", "link.csv", "/etc/passwd", "folder/in.csv"):
        for public in ("zones", "sites"):
            told = live.post("/sources", {"name": "a", "paths": ["ok.csv"], public: path})
            assert told.json()["code"] == "outside-folder", path
    assert live.get("/state").json()["sources"] == []


def test_a_file_that_became_a_link_is_refused_when_it_is_used(town, tmp_path):
    """The path is judged again by the run: what was registered may have been replaced."""
    events = next((tmp_path / "work" / "city" / "events").glob("*.parquet"))
    outside = tmp_path / "elsewhere.parquet"
    events.rename(outside)
    events.symlink_to(outside)
    told = town.get(f"/sources/{town.source}")
    assert told.status_code == 400
    assert told.json()["code"] == "outside-folder"


def test_a_slow_head_is_cut_off_the_first_and_every_later_one(one_server):
    began = time.monotonic()
    with (
        socket.create_connection(("127.0.0.1", one_server.port), timeout=30) as first,
        socket.create_connection(("127.0.0.1", one_server.port), timeout=30) as later,
    ):
        first.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1")
        later.sendall(f"GET /favicon.ico HTTP/1.1\r\nHost: 127.0.0.1:{one_server.port}\r\n\r\n".encode())
        assert later.recv(100).startswith(b"HTTP/1.1 204")
        later.sendall(b"GET /favicon.ico HTTP/1.1\r\nHost: 127")
        assert first.recv(100) == b""
        while later.recv(4096):
            pass
        assert time.monotonic() - began < 25


WAITING = {
    "idle": "",
    "half a head": "GET /favicon.ico HTTP/1.1\r\nHost: 127",
    "kept alive": "GET /favicon.ico HTTP/1.1\r\nHost: {host}\r\n\r\n",
    "no body": "GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n\r\n",
    "answer not read": "GET /page/plotly.js HTTP/1.1\r\nHost: {host}\r\n\r\n",
}


def test_connections_that_wait_for_their_client_keep_nobody_out(one_server):
    for name, sent in WAITING.items():
        began = time.monotonic()
        with contextlib.ExitStack() as stack:
            for _ in range(150):
                each = stack.enter_context(
                    socket.create_connection(("127.0.0.1", one_server.port), timeout=5)
                )
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    each.sendall(sent.format(host=f"127.0.0.1:{one_server.port}").encode())
            assert status(request(one_server)) == 200, name
            assert status(request(one_server, "/", token="")) == 200, name
        assert time.monotonic() - began < 8, f"{name}: served only after the others had timed out"


BUSY = """
import sys, threading, time
import shoal.studio.workspace as workspace

def never(self, under):
    print("reading", flush=True)
    time.sleep(300)

workspace.Workspace.listed = never
from shoal.cli.main import main
sys.argv[0] = "shoal"
main()
"""


@pytest.mark.parametrize("sign", tiers([signal.SIGINT, signal.SIGTERM], (signal.SIGTERM,)))
def test_the_page_ends_while_a_read_is_in_progress(tmp_path, sign):
    server = subprocess.Popen(
        [sys.executable, "-c", BUSY, "studio", "--port", "0", "--no-open", "--folder", tmp_path / "work"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        while (found := re.search(r"127\.0\.0\.1:(\d+)/#token=(\S+)", server.stdout.readline())) is None:
            assert server.poll() is None
        port, token = int(found[1]), found[2]
        with socket.create_connection(("127.0.0.1", port)) as connection:
            head = f"GET /api/files HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nx-shoal-token: {token}\r\n\r\n"
            connection.sendall(head.encode())
            while server.stdout.readline() != "reading\n":
                assert server.poll() is None
            server.send_signal(sign)
            out, _ = server.communicate(timeout=15)
        assert server.returncode == 128 + sign
        assert "The page is closed." in out
        assert "Traceback" not in out
    finally:
        server.kill()


ENDLESS = """
import signal, sys, time
if "shoal.studio.reading" in sys.orig_argv:
    import os, shoal.studio.sources as sources

    def never(self, card):
        with open({mark!r}, "w") as file:
            file.write(str(os.getpid()))
        time.sleep(300)

    sources.SourceShelf.opened = never
    real = signal.alarm
    signal.alarm = lambda seconds: real(min(seconds, {most}))
"""


def reading_forever(serve, tmp_path, most=300):
    """A server with a request that its reading process never answers, and that process."""
    (tmp_path / "patch").mkdir()
    mark = tmp_path / "reader"
    (tmp_path / "patch" / "sitecustomize.py").write_text(ENDLESS.format(mark=str(mark), most=most))
    server = serve(tmp_path / "work", PYTHONPATH=str(tmp_path / "patch"))
    (server.folder / "ok.csv").write_text("user,time,lon,lat\n1,2026-03-02T00:00Z,2,48\n")
    asking = threading.Thread(target=lambda: _ignore(server), daemon=True)
    asking.start()
    end = time.monotonic() + 60
    while not (mark.exists() and mark.read_text()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return server, int(mark.read_text())


def _ignore(server):
    with contextlib.suppress(httpx.HTTPError):
        server.post("/sources", {"name": "a", "paths": ["ok.csv"]})


def gone(process, seconds):
    """Whether a process ended in time; one that waits to be collected has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    return False


def test_an_endless_read_ends_with_the_page(serve, tmp_path):
    server, reader = reading_forever(serve, tmp_path)
    assert server.get("/state").status_code == 200, "the page goes on answering"
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 15
    assert gone(reader, 5)


@pytest.mark.exhaustive
def test_an_endless_read_ends_after_the_server_was_killed(serve, tmp_path):
    server, reader = reading_forever(serve, tmp_path, most=2)
    server.kill()
    assert gone(reader, 10)


def test_the_server_listens_on_this_machine_alone(one_server):
    mine = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in mine - {"127.0.0.1"}:
        if address.startswith("127."):
            continue
        with pytest.raises(OSError):
            socket.create_connection((address, one_server.port), timeout=2).close()
    assert httpx.get(f"http://127.0.0.1:{one_server.port}/").status_code == 200


def test_a_second_server_on_the_port_is_refused_clearly(one_server, command, tmp_path):
    code, _, err = command("studio", "--port", one_server.port, "--no-open", "--folder", tmp_path / "other")
    assert code == 5
    assert "port-taken" in err
    assert "Traceback" not in err


def test_nothing_of_a_request_is_logged(live):
    live.client.get("/files", params={"under": "raw-value-12345"})
    live.stop()
    assert "raw-value-12345" not in live.process.stdout.read()
    assert not any(
        b"raw-value-12345" in path.read_bytes()
        for folder, _, names in os.walk(live.folder)
        for path in (live.folder.__class__(folder, name) for name in names)
    )
