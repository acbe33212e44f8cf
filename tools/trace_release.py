"""Counts the source files that a release of each kind passes: python tools/trace_release.py [--files].

A file counts if the body of one of its functions runs between start and return of the command, in a process
in which the same command ran before. Module level, generated code and compiled kernels do not count.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
USERS = "600"
# name -> the simulated city and its shape, and the command that releases it, run after run
RELEASES = {
    "density (gaussian)": (("town", "events"), "density run --plan {city}/density.toml --method gaussian"),
    "density (best)": (("town", "events"), "density run --plan {city}/density.toml"),
    "histogram": (("town", "trips"), "histogram run --plan {city}/histogram.toml"),
    "synthetic": (("town", "trips"), "synthesize run --plan {city}/synthetic.toml --count 200"),
    "commute": (
        ("town", "events"),
        "synthesize run {city}/events/*.parquet --method commute --sites {city}/sites.csv "
        "--start 2026-03-02 --end 2026-03-09 --time-zone Europe/Paris --epsilon 1 --delta 1e-6 --count 200",
    ),
    "query": (("town", "events"), "query --plan {city}/density.toml --zones-in Z0001 --epsilon 1"),
    "trajectories": (("abi", "samples"), "trajectories run --plan {city}/trajectories.toml"),
}


def files_of(command: Sequence[str]) -> set[str]:
    """Files below src whose functions run while the command does."""
    from shoal.cli.main import shoal

    names: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            names.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            shoal.main(list(command), standalone_mode=False)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return {name.removeprefix(f"{SOURCE}/") for name in names if name.startswith(f"{SOURCE}/")}


def followed(kinds: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each kind with the files of its second run, on a simulated city in a temporary folder."""
    from shoal.cli.main import shoal

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["SHOAL_LEDGER"] = str(folder / "ledger.sqlite")
        for kind in kinds:
            (preset, shape), template = RELEASES[kind]
            city = folder / f"{preset}-{shape}"
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                if not city.exists():
                    made = f"simulate {preset} --users {USERS} --what {shape} --weeks 1 --out {city}"
                    shoal.main(made.split(), standalone_mode=False)
            command = template.format(city=city).split()
            runs = []
            for at in range(2):  # each for a population of its own, as two records of one could be linked
                population = f"{kind.split()[0]}-{len(kind)}-{at}"
                created = f"ledger create {population} --epsilon 20 --delta 1e-6"
                with contextlib.redirect_stdout(io.StringIO()):
                    shoal.main(created.split(), standalone_mode=False)
                place = folder / population
                place.mkdir()
                own = ["--population", population, "--out", str(place / "release")]
                own += [] if kind == "query" else ["--owner", str(place / "owner")]  # a query has no report
                runs.append(files_of([*command, *own]))
            yield kind, sorted(runs[1])


def main() -> None:
    """Print one row per kind, and the files with --files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(RELEASES)}")
    parser.add_argument("--files", action="store_true", help="list the files too")
    asked = parser.parse_args()
    print("| release | files | of these in kinds/, shared | its own |\n| --- | --- | --- | --- |")
    for kind, files in followed(asked.kinds or list(RELEASES)):
        inside = [file.split("/", 2)[2] for file in files if file.startswith("shoal/kinds/")]
        own = [file for file in inside if "/" in file]
        print(f"| {kind} | {len(files)} | {len(inside) - len(own)} | {len(own)} |", flush=True)
        if asked.files:
            print("".join(f"    {file}\n" for file in files), end="")


if __name__ == "__main__":
    main()
