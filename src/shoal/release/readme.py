"""The README.md of a release, for its recipient: what it is, what it promises, how to read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.privacy.guarantee import in_full
from shoal.release.manifest import Manifest


def recipient_readme(manifest: Manifest, columns: Mapping[str, Mapping[str, str]], extra: str = "") -> str:
    """Markdown rendered from the manifest; `columns` maps a file to its columns and their meaning.

    `extra` is the part only the flow knows, in Markdown: how large the noise is and how to read it.
    """
    parts = [
        f"# Release of {manifest.population}",
        f"Made with {manifest.package['name']} {manifest.package['version']} on {manifest.created[:10]}. "
        "`manifest.json` lists every file with its hash, every public parameter and every spend.",
        _guarantee(manifest),
        *_columns(columns),
        "## How to read the noise\n\n" + (extra.strip() or _READ_NOISE[manifest.is_private]),
        "## Check it\n\n`shoal verify FOLDER` compares all files with the manifest and prints the guarantee.",
        f"## Licence\n\n{manifest.licence}",
    ]
    return "\n\n".join(parts) + "\n"


def in_words(manifest: Manifest) -> str:
    """The guarantee in a few plain sentences, from the numbers in the manifest."""
    if manifest.reproducible:
        return _SEEDED
    lines = [manifest.unit, manifest.promise]
    if manifest.is_private:
        lines.append(_price(manifest.guarantee))
    else:
        lines.append("This release is not differentially private.")
    if manifest.tuned_on_private_data:
        lines.append(
            "A method or parameter was chosen by looking at private data; that choice is not paid for."
        )
    return "\n".join(lines)


def _guarantee(manifest: Manifest) -> str:
    return "## What it promises\n\n" + in_words(manifest).replace("\n", "\n\n")


def _price(guarantee: Mapping[str, Any]) -> str:
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    rho = f", rho = {in_full(guarantee['rho'])}" if "rho" in guarantee else ""
    return (
        f"Differential privacy with epsilon = {in_full(epsilon)}, delta = {in_full(delta)}{rho}; neighbours: "
        + (f"{guarantee['neighbours']}.")
    )


def _columns(columns: Mapping[str, Mapping[str, str]]) -> list[str]:
    parts = ["## Files and columns"]
    for file, meanings in columns.items():
        rows = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in meanings.items())
        parts.append(f"`{file}`\n\n| column | meaning |\n| --- | --- |\n{rows}")
    return parts


_SEEDED = (
    "Nothing is promised: the noise was seeded, so it can be computed again and taken off.\n"
    "This protects nobody and is not for publication."
)

_READ_NOISE = {
    True: "Random noise was added to every count. Small counts are mostly noise; sums over many zones or "
    "slots are more exact in proportion. A zero may be a small number and a small number may be a zero.",
    False: "No noise was added. The promise above says how people are hidden instead.",
}
