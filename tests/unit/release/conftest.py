"""What tests of the folder share: a ledger, a request, and what became of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.small import request_for

from shoal.errors import LedgerError
from shoal.privacy.ledger import Ledger, open_ledger
from shoal.release.folder import ReleaseRequest
from shoal.release.manifest import Manifest
from shoal.release.page.page import plotly_js

NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \u2028 {{ payload }} {% raw %}"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = open_ledger(tmp_path / "private" / "ledger.sqlite")
    ledger.create("town", currency="rho", limit_nano=100)
    return ledger


@pytest.fixture
def asked(tmp_path: Path) -> ReleaseRequest:
    return request_for(tmp_path / "place" / "out")


def spent(ledger: Ledger) -> int:
    return ledger.state().population("town").spent_nano


def with_(asked: ReleaseRequest, **change) -> ReleaseRequest:
    return ReleaseRequest(**{**vars(asked), **change})


def left(asked: ReleaseRequest) -> list[str]:
    return sorted(path.name for path in asked.out.parent.iterdir()) if asked.out.parent.exists() else []


def busy(*_given, **_named):
    raise LedgerError("ledger-busy", "the ledger is in use.", "Try again later.")


def never(folder: Path) -> Manifest:
    raise AssertionError("it was built before")


def payload_of(page: str) -> Any:
    """What the scripts of a page draw from."""
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found.group(1))


def without_library(page: str) -> str:
    return page.replace(plotly_js(), "")


def without_scripts(page: str) -> str:
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
