"""The README.md of a release, for its recipient: what it is, what it promises, how to read it.

It is rendered from the manifest but for one section, which only the flow knows; so a recipient can render it
again and see whether manifest and README still agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from shoal.privacy.guarantee import in_full
from shoal.release.manifest import NONE_RECORDED, RECORDED, Manifest

README = "README.md"
# Version of the sections: the first has no limits and no parameters, the second a table of columns per file.
LAYOUT = 3
_READING = re.compile(r"\n\n## How to read (?:the noise|it)\n\n(.*)\n\n## Check it\n\n", re.DOTALL)


def recipient_readme(
    manifest: Manifest,
    columns: Mapping[str, Mapping[str, str]],
    extra: str = "",
    first: str = "",
    *,
    layout: int = LAYOUT,
) -> str:
    """Markdown rendered from the manifest; `columns` maps a file to its columns and their meaning.

    `extra` is the part only the flow knows, in Markdown: how large the noise is and how to read it. `first`
    is a first paragraph, where a recipient must know something before anything else.
    """
    plain = as_plain if layout > 1 else str
    parts = [
        f"# Release of {plain(manifest.population)}",
        *([first] if first else []),
        f"Made with {manifest.package['name']} {manifest.package['version']} on {manifest.created[:10]}. "
        "`manifest.json` lists every file with its hash, every public parameter and every spend.",
        "## What it promises\n\n" + "\n\n".join(plain(line) for line in in_words(manifest).split("\n")),
        *_after_noise(manifest),
        *([_limits(manifest)] if layout > 1 else []),
        *_columns(columns, layout),
        f"## How to read {'the noise' if manifest.is_private else 'it'}\n\n"
        + (extra.strip() or _READ_NOISE[manifest.is_private]),
        f"## Check it\n\n{_CHECK[min(layout, 2)]}",
        *([_parameters(manifest)] if layout > 1 else []),
        f"## Licence\n\n{plain(manifest.licence)}",
    ]
    return "\n\n".join(parts) + "\n"


def readme_problems(text: str, manifest: Manifest) -> Iterator[str]:
    """Render the README of a manifest again, in any layout it may have had, and compare."""
    extra, first = reading_of(text), text.split("\n\n")[1:2]
    if first != [f"**{as_plain(manifest.promise)}**"]:
        first = []
    # READMEs of the first layout were written before it was known whether the population was tuned on.
    before = replace(manifest, tuned_on_private_data=False)
    as_written = ((manifest, LAYOUT), (manifest, 2), (manifest, 1), (before, 1))
    rendered = (recipient_readme(each, manifest.columns, extra, *first, layout=n) for each, n in as_written)
    if text not in rendered:
        yield f"{README} does not say what the manifest says."


def reading_of(text: str) -> str:
    """The section of a README that only the flow knows."""
    section = _READING.search(text)
    return section[1] if section else ""


def in_words(manifest: Manifest) -> str:
    """The guarantee in a few plain sentences, from the numbers in the manifest."""
    if manifest.reproducible:
        return _SEEDED
    lines = [manifest.unit, manifest.promise]
    if manifest.is_private:
        lines.append(_price(manifest.guarantee))
    else:
        lines.append("This release is not differentially private.")
    if looks := _looks(manifest):
        lines.append(looks)
    return "\n".join(lines)


def _limits(manifest: Manifest) -> str:
    """What a recipient has to know of the release's limits; docs/known-limits.md has all of them."""
    unit = manifest.guarantee["unit"]
    points = [*_OF_PRIVACY] if manifest.is_private else []
    if manifest.is_private and unit != "user":
        points.append("The unit is one {unit}, not a person: somebody with many of them is protected less.")
    points += [point for name, limits in _OF_KIND.items() if name in manifest.columns for point in limits]
    return f"{_LIMITS}\n\n{_listed(point.format(unit=as_plain(unit)) for point in points)}"


def _after_noise(manifest: Manifest) -> list[str]:
    """Sections that follow from the published numbers."""
    peaks = manifest.input.get("peaks")
    return [*([_verdict(manifest)] if manifest.verdict else []), *([] if peaks is None else [_peaks(peaks)])]


def _peaks(peaks: Mapping[str, Any]) -> str:
    """The peaks that were found, and how large one must be to be found."""
    lines = [f"{_PEAKS} In most zones, about {peaks['found_from']:,} people for four hours are found."]
    if peaks["found"]:
        rows = (" | ".join(as_plain(str(each[name])) for name in PEAK) for each in peaks["found"])
        head = f"| {' | '.join(PEAK)} |\n|{' --- |' * len(PEAK)}"
        lines.append("\n".join([head, *(f"| {row} |" for row in rows)]))
    else:
        lines.append("None was found.")
    return "\n\n".join(["## Peaks seen once", *lines])


def _verdict(manifest: Manifest) -> str:
    """The grade of the published numbers, and what would make them better."""
    verdict, advice = manifest.verdict, manifest.verdict["advice"]
    figures = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in verdict["figures"].items())
    better = f"\n\nA release that differs in one of these would be better:\n\n{_listed(advice)}"
    return (
        f"## What it is good for\n\n**{verdict['grade'].capitalize()}.** {verdict['summary']} The grade "
        f"follows from the published numbers alone ({figures}).{better if advice else ''}"
    )


def _listed(points: Iterable[str]) -> str:
    return "\n".join(f"- {point}" for point in points)


def _parameters(manifest: Manifest) -> str:
    """Every public parameter as the manifest has it, in JSON."""
    # noisy totals of the input are not known yet when a README is written: before the budget is reserved
    known = {name: manifest.input[name] for name in ("shape", "columns") if name in manifest.input}
    shown = {**manifest.public, "input": known}
    if manifest.read_from_data:
        shown["read_from_data"] = manifest.read_from_data
    texts = ((name, json.dumps(value, ensure_ascii=False)) for name, value in shown.items())
    rows = "\n".join(f"| {_code(name)} | {_code(value)} |" for name, value in texts)
    head = "As in `manifest.json`.\n\n| name | value |\n| --- | --- |"
    return f"## Parameters\n\n{head}\n{rows}"


def _code(text: str) -> str:
    return f"`{text.translate(_IN_CODE)}`"


def _price(guarantee: Mapping[str, Any]) -> str:
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    rho = f", rho = {in_full(guarantee['rho'])}" if "rho" in guarantee else ""
    return (
        f"Differential privacy with epsilon = {in_full(epsilon)}, delta = {in_full(delta)}{rho}; neighbours: "
        + (f"{guarantee['neighbours']}.")
    )


def _columns(columns: Mapping[str, Mapping[str, str]], layout: int) -> list[str]:
    parts = ["## Files and columns"]
    for files, meanings in _alike(columns, layout):
        named = ((_code(name) if layout > 1 else f"`{name}`", meaning) for name, meaning in meanings.items())
        rows = "\n".join(f"| {name} | {meaning} |" for name, meaning in named)
        names = ", ".join(f"`{file}`" for file in files)
        parts.append(f"{names}\n\n| column | meaning |\n| --- | --- |\n{rows}")
    if layout > 1 and any(file.endswith(".csv") for file in columns):
        parts.append(
            "In CSV files an apostrophe precedes text that begins with `=`, `+`, `-` or `@`, so that no "
            "spreadsheet takes it for a formula."
        )
    return parts


def _alike(
    columns: Mapping[str, Mapping[str, str]], layout: int
) -> list[tuple[list[str], Mapping[str, str]]]:
    """Files with the same columns stand together."""
    groups: list[tuple[list[str], Mapping[str, str]]] = []
    for file, meanings in columns.items():
        same = next((files for files, known in groups if layout > 2 and known == meanings), None)
        if same is None:
            groups.append(([file], meanings))
        else:
            same.append(file)
    return groups


# What tuned_on_private_data means for a recipient. The first version wrote true or false.
LOOKS: dict[str | bool, str] = {
    True: "A method or parameter was chosen by looking at private data; that choice is not paid for.",
    RECORDED: "The owner's ledger records a look at private data of this population before this release: a "
    "seeded run, a comparison, an attack, an inspection or a choice. A method or parameter may have been "
    "chosen by it, and no budget pays for that.",
    NONE_RECORDED: "The owner's ledger records no seeded run, comparison, attack, inspection or choice on "
    "private data of this population before this release. Looks outside the tool leave no record, and the "
    "owner's reports on earlier releases are not counted, so this does not prove that no choice was made by "
    "looking.",
}


# Releases without a verdict were made before the ledger counted plans that follow an owner's report.
_REPORTS = (
    "and the owner's reports on earlier releases are not counted, so this does not prove",
    "and of the owner's reports on earlier releases only those on the same window are counted, so this does "
    "not prove",
)


def _looks(manifest: Manifest) -> str:
    sentence = LOOKS.get(manifest.tuned_on_private_data, "")
    return sentence.replace(*_REPORTS) if manifest.verdict else sentence


def completed(text: str, manifest: Manifest) -> str:
    """A README that was written before anything was counted, with what is known afterwards."""
    text = text.replace(LOOKS[NONE_RECORDED], _looks(manifest))
    return text.replace(_LIMITS, "\n\n".join([*_after_noise(manifest), _LIMITS]), 1)


def as_plain(text: str) -> str:
    """Text of the owner's in Markdown: nothing in it is markup, HTML or a heading.

    >>> as_plain("<b>*paris*_2026</b>")
    '&lt;b&gt;\\\\*paris\\\\*\\\\_2026&lt;/b&gt;'
    """
    return " ".join(text.translate(_AS_PLAIN).split())


def as_cell(text: str) -> str:
    """Text in a cell of CSV: an apostrophe before what a spreadsheet would take for a formula.

    >>> as_cell("=1+1"), as_cell("Gare-Nord")
    ("'=1+1", 'Gare-Nord')
    """
    return f"'{text}" if text.startswith(FORMULA_SIGNS) else text


FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
_AS_PLAIN = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", **{each: f"\\{each}" for each in "\\`*_[]|~#"}}
)
_IN_CODE = str.maketrans({"`": "'", "|": "/", "\n": " ", "\r": " "})
_SEEDED = (
    "Nothing is promised: the noise was seeded, so it can be computed again and taken off.\n"
    "This protects nobody and is not for publication."
)

_READ_NOISE = {
    True: "Random noise was added to every count. Small counts are mostly noise; sums over many zones or "
    "slots are more exact in proportion. A zero may be a small number and a small number may be a zero.",
    False: "No noise was added. The promise above says how people are hidden instead.",
}

_CHECK = {
    1: "`shoal verify FOLDER` compares all files with the manifest and prints the guarantee.",
    2: "`shoal verify FOLDER --sha256 HASH` compares all files with the manifest, the manifest with the hash "
    "that the owner gave you, and prints the guarantee. Without a hash or a signature from the owner it "
    "shows only that the folder agrees with itself.",
}

PEAK = ("zone", "from", "to", "days", "people", "deviation")  # what is listed of a peak
_PEAKS = (
    "More people than usual in one zone for some hours of this window, found in the noisy answers and "
    "contained in the counts; `people` at a time, with the standard deviation. On several days, the hours "
    "are the same on each. A peak seen once in this window may return every week: the window cannot tell. "
    "Smaller and shorter ones are lost or spread over the zone's week."
)
_LIMITS = "## What it does not protect, and how far to trust the numbers"
_OF_PRIVACY = (
    "The promise is about this release. Releases about the same people add up; the owner's ledger keeps the "
    "sum, and nothing in this folder can show it.",
    "It covers one {unit} as the ids in the data name it. A person with two ids has about twice the epsilon.",
    "Facts about groups remain: that a place was crowded can be learnt, and with it something about whoever "
    "was known to be there.",
    "Parameters below, such as sizes that the owner declared, are the owner's statements; noise does not "
    "protect them.",
)
_OF_KIND = {  # by a file that only this kind has
    "density.parquet": (
        "A {unit} observed at several places within a slot is counted at each of them: sums over zones count "
        "visits, not persons.",
        "Intervals cover the noise. They do not cover contributions that were cut off, nor that visits at a "
        "site were spread over zones by area.",
    ),
    "histogram.parquet": (
        "Answers have no intervals. Areas of a few cells follow the model more than the data.",
        "{unit}s with more trips than were kept are under-represented.",
    ),
    "trips.parquet": (
        "No trip was made by anybody. Rare places and ways are mostly noise and cannot be told from real "
        "ones; there are no intervals.",
        "Which trips belong to one person, and who returns to a place, is not kept.",
    ),
    "events.parquet": (
        "No record is of a real person. Rare places are mostly noise and cannot be told from real ones; "
        "there are no intervals.",
    ),
    "answers.csv": (
        "Answers count kept visits alone and are low by what was left out; intervals cover the noise alone.",
    ),
    "records.parquet": (
        "Neither membership nor attributes are hidden. One adversary is considered, who followed a {unit} "
        "for one stretch of time: nothing is promised against more knowledge, nor about this release with "
        "another one on the same people. What was measured of that stands under *How to read it*.",
    ),
}
