"""Files behind a ticket: a page in a tab of its own, or a file or folder to save."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import FileResponse, HTMLResponse, Response, StreamingResponse

from shoal.studio.context import Studio, studio_of

router = APIRouter(include_in_schema=False)
Here = Annotated[Studio, Depends(studio_of)]
# A report is a page of its own, with its own policy inside; here it also loses our origin, so that nothing in
# it, whatever a zone is called, can reach the token or the server.
REPORT_POLICY = "sandbox allow-scripts allow-downloads allow-modals; frame-ancestors 'none'"
GONE = "<!doctype html><title>Expired</title><p>This address has expired: open it again from the page.</p>"
CHUNK = 1 << 20


@router.get("/open/{ticket}")
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
