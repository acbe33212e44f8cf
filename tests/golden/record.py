"""What the package says and does today, recorded so that a restructuring can be compared with it.

    python -m tests.golden.record        record all of it anew, in tests/golden/now

Help texts, keys of runs, manifests, noise scales, and planted bugs with what catches them. They are
recorded anew only in a commit of its own, whose message lists every difference.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

V1 = Path(__file__).parent / "v1"
NOW = Path(__file__).parent / "now"
COMMANDS = {
    "density": "density",
    "histogram": "histogram",
    "synthetic": "synthesize",
    "trajectories": "trajectories",
}
PLANS = sorted(path.stem for path in (V1 / "plans").glob("*.toml") if path.stem != "density-spark")
RELEASES = (*PLANS, "query-gaussian", "query-laplace", "query-weights")
BUDGETS = ((0.1, 1e-6), (0.5, 1e-9), (1.0, 1e-6), (4.0, 1e-4))
CHANGES = ("created", "files", "read_from_data", "verdict", "package")  # from run to run, or by version
ULPS = 2  # a scale may differ by so many from the recorded one


def help_texts() -> str:
    """The help of every command, as it is printed 100 columns wide."""
    from shoal.cli.main import shoal

    return "\n".join(f"$ {path} --help\n\n{text}" for path, text in _helps(shoal, "shoal", None))


def _helps(command: Any, path: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    settings = {**command.context_settings, "terminal_width": 100}
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent, **settings)
    command._help_option = None  # kept by click from its first use, which may have been without the group
    yield path, command.get_help(context)
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        yield from _helps(command.get_command(context, name), f"{path} {name}", context)


def world(folder: Path) -> None:
    """The simulated city of the releases of version 1, and a new ledger; the caller works in this folder."""
    from shoal.privacy.ledger import open_ledger, pots_within

    for name in ("sites.csv", "zones.geojson", "events.parquet", "trips.parquet", "queries.jsonl", "plans"):
        (shutil.copytree if (V1 / name).is_dir() else shutil.copy)(V1 / name, folder / name)
    pots = pots_within(20.0, 1e-6, 10.0)
    open_ledger(folder / "ledger.sqlite").create("golden", pots=pots, delta=1e-6)


def arguments(name: str) -> list[str]:
    """The command that makes a release of the simulated city, run in its folder."""
    kind, _, method = name.partition("-")
    if kind == "query":
        asked = ["--mechanism", method, "--epsilon", "0.5", "--file", "queries.jsonl"]
        return ["query", *asked, "--plan", "plans/density-gaussian.toml", "--out", f"releases/{name}"]
    return [COMMANDS[kind], "run", "--plan", f"plans/{name}.toml"]


def key_and_manifest(folder: Path, name: str) -> dict[str, Any]:
    """The key of the one release that was made in `folder`, and what its manifest states."""
    from shoal.privacy.ledger import open_ledger

    state = open_ledger(folder / "ledger.sqlite").state().population("golden")
    (key,) = state.released
    manifest = json.loads((folder / "releases" / name / "manifest.json").read_text("utf-8"))
    stated = {field: value for field, value in manifest.items() if field not in CHANGES}
    stated["input"] = {field: value for field, value in stated["input"].items() if "noise" not in field}
    return {"key": key, "manifest": stated}


def scales(name: str) -> dict[str, list[tuple[str, str, float]]]:
    """Name, family and scale of every noise call of a mechanism of the registry, by budget."""
    from shoal.auditing.lower_bounds import queries_of
    from shoal.auditing.pipelines.visits import pipeline_of
    from shoal.mechanisms.registry import entry_of

    entry, listed = entry_of(name), {}
    for epsilon, delta in BUDGETS:
        pipeline = pipeline_of(name, epsilon, None if entry.pure else delta, size=entry.tight)
        asked = [(query.name, query.kind, query.scale) for query in queries_of(pipeline, entry)]
        listed[f"{epsilon:g}" if entry.pure else f"{epsilon:g}, {delta:g}"] = asked
    return listed


def caught(name: str) -> dict[str, str | None]:
    """The check that catches each planted bug of a registered mechanism first."""
    from shoal.auditing.planted.mutants import catch, planted

    found = {mutant.name: catch(mutant) for mutant in planted(name)}
    return {bug: how and how.partition(":")[0] for bug, how in found.items()}


def main() -> None:
    from shoal.mechanisms.registry import REGISTRY

    NOW.mkdir(exist_ok=True)
    (NOW / "help.txt").write_text(help_texts(), "utf-8")
    _write("scales.json", {name: scales(name) for name in sorted(REGISTRY)})
    _write("planted.json", {name: caught(name) for name in sorted(REGISTRY)})
    runs = {}
    for name in RELEASES:
        with tempfile.TemporaryDirectory() as place:
            world(Path(place))
            line = [sys.executable, "-m", "shoal", *arguments(name)]
            ledger = {"SHOAL_LEDGER": f"{place}/ledger.sqlite"}
            subprocess.run(line, cwd=place, env=os.environ | ledger, check=True)
            runs[name] = key_and_manifest(Path(place), name)
    _write("runs.json", runs)


def _write(name: str, content: Any) -> None:
    (NOW / name).write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
