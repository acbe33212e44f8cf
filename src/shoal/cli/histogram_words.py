"""What `shoal histogram run` prints: the plan and its price, or where things are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.cli import trip_words
from shoal.cli.result_words import near

if TYPE_CHECKING:
    from shoal.kinds.histogram.prepare import PreparedHistogram
    from shoal.kinds.run import RunResult
    from shoal.privacy.ledger import Ledger


def print_dry_run(prepared: PreparedHistogram, ledger: Ledger, as_json: bool) -> None:
    """Everything the run would do, from public parameters and the ledger alone."""
    from shoal.kinds.dry_run import histogram_dry_run

    trip_words.print_dry_run(prepared, histogram_dry_run(prepared, ledger), as_json, rows=_rows)


def _rows(prepared: PreparedHistogram) -> list[tuple[str, str]]:
    plan, setting = prepared.plan, prepared.setting
    kept = "one piece of every trip" if prepared.each_trip else f"at most {setting.per_unit} of a {plan.unit}"
    scaled = "" if setting.cap is None else f", scaled up to at most {setting.cap} of a {plan.unit}"
    return [
        *trip_words.map_rows(prepared),
        ("kept", kept + scaled),
        ("number", "bought" if setting.trips is None else f"{setting.trips:,}, as declared"),
        ("given", f"{setting.given.count:,} rectangles"),
        *trip_words.folder_rows(prepared),
    ]


def print_result(prepared: PreparedHistogram, result: RunResult, ledger: Ledger, as_json: bool) -> None:
    """Where things are, what was promised, what was spent and what is left."""
    then = f"Ask it:  shoal histogram query {near(result.release)} --box WEST,SOUTH,EAST,NORTH   (free)"
    trip_words.print_result(prepared, result, ledger, as_json, then)
