"""The server's application: a router per view of the page, errors in one shape, the page's files, tickets.

A ticket stands for a file: a page in a tab of its own, or a file or folder to save.
"""

from __future__ import annotations

import mimetypes
import os
import re
import zipfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from shoal import __version__
from shoal.errors import BudgetExceeded, PlanError, ShoalError
from shoal.kinds.kind import KINDS
from shoal.studio import api_data, api_ledger, api_look, api_runs
from shoal.studio.context import Here, Studio
from shoal.studio.forms import Problem, field_problems, for_page
from shoal.studio.guard import App, Guard

PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": words}
    for code, words in (
        (400, "It makes no sense, or is not allowed; the message says what to do."),
        (401, "The token is missing or wrong."),
        (404, "There is no such thing."),
        (422, "The form is not filled in as it must be."),
    )
}
FAULTS = {
    "name": "must be letters, digits, dots, dashes or underscores, without spaces, a letter or digit first",
    "head": "must be the 64 digits (0-9, a-f) of a head",
}
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


def create_app(studio: Studio) -> App:
    """The application behind its guard."""
    return Guard(unguarded(studio), studio.token, studio.port)


def unguarded(studio: Studio) -> FastAPI:
    """Without the guard, which tests of the application itself leave out."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        studio.runs.close()

    app = FastAPI(
        title="Shoal Studio",
        version=__version__,
        description="The server behind the local page. It listens on this machine alone.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.state.studio = studio
    for part in (api_data, api_runs, api_look, api_ledger):
        app.include_router(part.router, prefix="/api", responses=PROBLEMS)
    app.include_router(tickets)
    _serve_page(app)
    _say_errors(app)
    return app


def _serve_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(_asset("index.html"))

    @app.get("/favicon.ico", include_in_schema=False)
    def icon() -> Response:
        return Response(status_code=204)

    @app.get("/page/{path:path}", include_in_schema=False)
    def asset(path: str) -> Response:
        """Scripts and styles of the page: the same for everybody, kept by the browser for a while."""
        content = _page_files().get(path)
        if content is None:
            raise HTTPException(404)
        suffix = "." + path.rpartition(".")[2]
        kind = TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
        keep = {"cache-control": "private, max-age=86400" if path == "plotly.js" else "no-cache"}
        return Response(content, media_type=kind, headers=keep)


def _asset(name: str) -> str:
    return resources.files("shoal.studio").joinpath("page", name).read_text("utf-8")


_FILES: dict[str, bytes] = {}


def _page_files() -> dict[str, bytes]:
    """Every file of the page by its path, read once: no path of a request ever meets the file system."""
    if not _FILES:
        from shoal.release.page.page import module, plotly_js

        root = resources.files("shoal.studio").joinpath("page")
        for folder in ("", "views/"):
            for each in root.joinpath(folder).iterdir() if folder else root.iterdir():
                if each.is_file():
                    _FILES[f"{folder}{each.name}"] = each.read_bytes()
        for kind in KINDS.values():
            if kind.is_drawn:
                _FILES[f"kinds/{kind.name}.js"] = kind.script.read_bytes()
        for name in ("format.js", "map.js", "plot.js"):
            _FILES[f"report/{name}"] = module(name).encode()
        _FILES["plotly.js"] = plotly_js().encode()
    return _FILES


def _say_errors(app: FastAPI) -> None:
    @app.exception_handler(ShoalError)
    async def known(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, ShoalError)
        status = (
            404 if error.code.startswith("no-such-") else 409 if isinstance(error, BudgetExceeded) else 400
        )
        faults = field_problems(error.faults) if isinstance(error, PlanError) else []
        return problem(
            422 if faults else status, error.code, for_page(error.message), for_page(error.remedy), faults
        )

    @app.exception_handler(RequestValidationError)
    async def misfilled(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        faults = [f"{_field(each['loc'])} {_fault(dict(each))}" for each in error.errors()[:3]]
        return problem(422, "form", f"{'; '.join(faults)}.", "Correct it and try again.")

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        return problem(error.status_code, "http", str(error.detail), "")


def problem(
    status: int, code: str, message: str, remedy: str, faults: Sequence[Mapping[str, str]] = ()
) -> JSONResponse:
    return JSONResponse({"code": code, "message": message, "remedy": remedy, "faults": [*faults]}, status)


def _fault(error: dict[str, Any]) -> str:
    """What is wrong with a field, without the words of the library where they say nothing."""
    kind, place = error["type"], error["loc"][-1]
    if kind == "string_pattern_mismatch":
        return FAULTS.get(str(place), "holds characters that are not allowed here")
    if kind.endswith(("_parsing", "_type")) and kind.split("_")[0] in ("float", "int", "finite"):
        return "must be a number"
    return error["msg"][0].lower() + error["msg"][1:]


def _field(place: tuple) -> str:
    return ".".join(str(part) for part in place if part not in ("body", "query", "path")) or "the request"


tickets = APIRouter(include_in_schema=False)
# A report is a page of its own, with its own policy inside; here it also loses our origin, so that nothing in
# it, whatever a zone is called, can reach the token or the server.
REPORT_POLICY = "sandbox allow-scripts allow-downloads allow-modals; frame-ancestors 'none'"
GONE = "<!doctype html><title>Expired</title><p>This address has expired: open it again from the page.</p>"
CHUNK = 1 << 20


@tickets.get("/open/{ticket}")
def open_ticket(ticket: str, studio: Here) -> Response:
    opened = studio.tickets.find(ticket)
    if opened is None or not opened.path.exists() or not studio.work.holds(opened.path):
        return HTMLResponse(GONE, status_code=404)
    if opened.path.is_dir():
        name = re.sub(r"[^A-Za-z0-9._-]", "_", opened.save_as or "release.zip")
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(_zipped(str(opened.path)), media_type="application/zip", headers=headers)
    if opened.save_as is not None:
        return FileResponse(opened.path, filename=opened.save_as)
    headers = {"content-security-policy": REPORT_POLICY}
    return FileResponse(opened.path, media_type="text/html", headers=headers)


class _Pipe:
    """Buffer that hands on the bytes of a zip file piece by piece; it never holds the whole file."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.at = 0

    def write(self, part: bytes) -> int:
        self.parts.append(bytes(part))
        self.at += len(part)
        return len(part)

    def tell(self) -> int:
        return self.at

    def flush(self) -> None:
        pass

    def taken(self) -> bytes:
        out = b"".join(self.parts)
        self.parts.clear()
        return out


def _zipped(folder: str) -> Iterator[bytes]:
    """The folder as a zip; links are left out, a release has none."""
    pipe = _Pipe()
    top = os.path.basename(folder)
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:  # pyright: ignore
        for place, _, names in os.walk(folder):
            for name in sorted(names):
                path = os.path.join(place, name)
                if os.path.islink(path):
                    continue
                inner = os.path.join(top, os.path.relpath(path, folder))
                with open(path, "rb") as file, archive.open(inner, "w", force_zip64=True) as out:
                    while part := file.read(CHUNK):
                        out.write(part)
                        yield pipe.taken()
    yield pipe.taken()
