"""Messages that name options of the command, as the page calls them."""

from __future__ import annotations

import re

FIELDS = {
    "out": "the name of the release",
    "run-id": "a run id",
    "epsilon": "epsilon",
    "delta": "delta",
    "rho": "rho",
    "population": "the population",
    "start": "the start of the window",
    "end": "the end of the window",
    "time-zone": "the time zone",
    "zones": "the zones",
    "sites": "the sites",
    "box": "the box",
    "cell-m": "the size of a cell",
    "cells": "the cells",
    "h3": "the H3 resolution",
    "method": "the method",
    "users": "the number of users",
    "unit": "the unit",
    "k": "k",
    "tau-minutes": "tau",
    "epoch-minutes": "the epoch",
    "trips": "the number of trips",
    "trips-cap": "the cap of trips",
    "trips-per-user": "the trips kept per user",
    "slot-minutes": "the length of a slot",
    "on-bad-row": "what becomes of bad rows",
    "column": "the columns",
    "compose-with": "the earlier releases to combine with",
    "origin": "the origin",
    "split": "the start of the release",
    "gap-minutes": "the gap between trips",
}
_FLAG = re.compile(r"(?:\b(?:[Pp]ass|[Cc]hoose) (?:another )?)?--([a-z0-9]+(?:-[a-z0-9]+)*)")
_COMMAND = re.compile(r"`shoal ledger (?:create|raise|lower)[^`]*`")


def for_page(text: str) -> str:
    """
    >>> for_page("Pass --epsilon 0.5, say.")
    'Set epsilon: 0.5, say.'
    >>> for_page("Check --start and --zones.")
    'Check the start of the window and the zones.'
    """

    def named(found: re.Match) -> str:
        field = FIELDS.get(found.group(1)) or found.group(1).replace("-", " ")
        whole = found.group(0)
        if whole.lower().startswith(("pass", "choose")):
            verb = "Set" if whole[0].isupper() else "set"
            ends = text[found.end() : found.end() + 1]
            return f"{verb} {field}" + (":" if ends == " " and _is_value(text, found.end()) else "")
        return field

    said = _COMMAND.sub("the ledger room", text)
    if said != text:
        return for_page(said)
    return _FLAG.sub(named, text)


def _is_value(text: str, end: int) -> bool:
    return bool(re.match(r" (?:[0-9\"'\[]|[A-Z]{2,})", text[end:]))
