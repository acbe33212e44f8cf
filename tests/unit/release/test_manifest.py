"""The manifest: order, round trip, and what it refuses to say."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from tests.loops import for_each

from shoal.errors import GuaranteeError
from shoal.privacy.accounting import Loss
from shoal.privacy.guarantee import Guarantee, Unit
from shoal.release.manifest import FileEntry, Manifest
from shoal.release.readme import in_words, readme_problems, recipient_readme


def private(**change) -> Manifest:
    guarantee = Guarantee.of(Loss.pure(10**9), delta=None, unit=Unit())
    fields = {
        "unit": Unit().sentence,
        "promise": guarantee.sentence,
        "guarantee": guarantee.to_manifest(),
        "public": {"ell": 4, "window": ["2026-03-02", "2026-03-09"]},
        "spends": [{"name": "counts", "mechanism": "laplace", "epsilon": 1.0}],
        "population": "town",
        "input": {"shape": "user, time, site"},
        "columns": {"people": "people per zone and slot"},
    }
    return Manifest(**(fields | change))


def syntactic(**change) -> Manifest:
    fields = {
        "unit": "One user: all trips of one person.",
        "promise": "Each trip looks like at least 4 others; this is not differentially private.",
        "guarantee": {"kind": "not differentially private", "unit": "user", "k": 5},
        "public": {"k": 5},
        "spends": [],
        "population": "town",
        "input": {},
        "columns": {},
    }
    return Manifest(**(fields | change))


def test_first_keys_and_the_readme_say_whom_and_what():
    keys = list(json.loads(private().to_json()))
    assert keys[:5] == ["unit", "promise", "guarantee", "public", "spends"]
    assert json.loads(private().to_json())["guarantee"]["epsilon"] == 1.0
    unit = Unit("vehicle-day", "shift")
    guarantee = Guarantee.of(Loss.pure(10**9), delta=None, unit=unit)
    manifest = private(unit=unit.sentence, guarantee=guarantee.to_manifest(), promise=guarantee.sentence)
    assert "user" not in manifest.to_json().splitlines()[1]
    assert "epsilon" not in in_words(syntactic())
    assert "not differentially private" in in_words(syntactic())
    text = private(reproducible=True).to_json()
    assert "not for publication" in text
    assert Manifest.from_json(text).reproducible
    assert "not for publication" not in private().to_json()


@pytest.mark.parametrize("make", [private, syntactic])
def test_round_trip(make) -> None:
    manifest = make(
        files={
            "b.csv": FileEntry(sha256="0" * 64, bytes=1),
            "a/é.csv": FileEntry(sha256="1" * 64, bytes=2),
        }
    )
    text = manifest.to_json()
    assert Manifest.from_json(text).to_json() == text
    assert list(json.loads(text)["files"]) == ["a/é.csv", "b.csv"]


@for_each("name", ["epsilon", "delta", "rho", "rho_nano", "pure_epsilon", "Epsilon", "max-delta"])
@for_each("place", ["guarantee", "public", "input", "columns"])
def test_what_is_not_private_has_no_price_anywhere(name: str, place: str) -> None:
    value = {"deep": [{name: 1}]}
    if place == "guarantee":
        value |= syntactic().guarantee
    with pytest.raises(GuaranteeError, match="no epsilon, delta or rho"):
        syntactic(**{place: value})


@for_each(
    "change",
    [
        {"spends": [{"name": "counts"}]},
        {"promise": "This is differentially private."},
        {"promise": "Not differentially private, but differential privacy in spirit."},
        {"promise": "Safe with epsilon 1."},
    ],
)
def test_what_is_not_private_never_reads_so(change: dict) -> None:
    with pytest.raises(GuaranteeError, match="manifest-malformed"):
        syntactic(**change)


@for_each(
    "change",
    [
        {"guarantee": {**private().guarantee, "epsilon": 0}},
        {"guarantee": {**private().guarantee, "epsilon": math.nan}},
        {"guarantee": {**private().guarantee, "epsilon": math.inf}},
        {"guarantee": {**private().guarantee, "epsilon": True}},
        {"guarantee": {**private().guarantee, "epsilon": "1"}},
        {"guarantee": {**private().guarantee, "delta": 1.0}},
        {"guarantee": {**private().guarantee, "delta": -1e-9}},
        {"guarantee": {**private().guarantee, "rho": 0}},
        {"guarantee": {**private().guarantee, "neighbours": ""}},
        {"guarantee": {**private().guarantee, "kind": "magic"}},
        {"guarantee": {"kind": "differential privacy", "unit": "user", "neighbours": "add"}},
        {"guarantee": {**private().guarantee, "unit": "trip"}},  # a trip must not be called a user
        {"unit": "One vehicle-day, as declared."},
        {"promise": ""},
        {"promise": "two\nlines"},
        {"public": {"box": {1, 2}}},
        {"public": {1: "one"}},
        {"public": {"rate": math.inf}},
        {"public": {"rate": 10**4000}},
        {"public": {"name": "\x1b[2J"}},
        {"public": {"na\rme": 1}},
        {"licence": "\udc80"},
        {"population": "to\nwn"},
        {"guarantee": {**private().guarantee, "epsilon": 10**4000}},
        {"guarantee": {**private().guarantee, "epsilon": 1e300}},
        {"guarantee": {**private().guarantee, "delta": 1e-300}},
        {"guarantee": {**private().guarantee, "rho": 1e300}},
        {"guarantee": {**private().guarantee, "neighbours": ["add"]}},
        {"files": {"a": FileEntry(sha256="0" * 64, bytes=2.0)}},  # type: ignore[arg-type]
        {"files": {"a": FileEntry(sha256="0" * 64, bytes=True)}},
        {"files": {"a": FileEntry(sha256="0" * 64, bytes=-1)}},
        {"files": {"a": FileEntry(sha256="00", bytes=1)}},
        {"files": {"a": {"sha256": "0" * 64, "bytes": 1}}},
    ],
)
def test_refused(change: dict) -> None:
    with pytest.raises(GuaranteeError, match="manifest-malformed"):
        private(**change)


@for_each(
    "spoil",
    [
        lambda text: text + " ",
        lambda text: text.replace('"town"', '"town", "population": "town"'),
        lambda text: text.replace("1.0", "NaN"),
        lambda text: text.replace('"licence"', '"license"'),
        lambda text: text[:-10],
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: text.replace('"reproducible": false', '"reproducible": 0'),
        lambda text: text.replace('"files": {}', '"files": {"a": {"sha256": "0"}}'),
    ],
)
def test_text_that_is_not_a_manifest(spoil) -> None:
    with pytest.raises(GuaranteeError, match="manifest-malformed"):
        Manifest.from_json(spoil(private().to_json()))


def test_readme_is_rendered_from_the_manifest():
    text = recipient_readme(
        replace(private(), tuned_on_private_data=True),
        {"density.csv": {"people": "people per slot"}},
        "Noise: 3.",
    )
    for part in (
        "One user:",
        "epsilon = 1",
        "| `people` | people per slot |",
        "Noise: 3.",
        "## Licence",
        "looking",
    ):
        assert part in text
    assert "records a look" in recipient_readme(replace(private(), tuned_on_private_data="recorded"), {})
    assert "does not prove" in recipient_readme(private(), {})
    assert "looking" not in recipient_readme(replace(private(), tuned_on_private_data=False), {})
    columns = {"a.csv": {"x": "one"}, "b.csv": {"x": "two"}, "a.parquet": {"x": "one"}}
    manifest = private(columns=columns)
    text = recipient_readme(manifest, columns)
    assert text.count("| column | meaning |") == 2
    assert "`a.csv`, `a.parquet`" in text
    for layout in (1, 2, 3):  # READMEs of every layout verify
        assert list(readme_problems(recipient_readme(manifest, columns, layout=layout), manifest)) == []


@for_each("value", [True, False, "recorded", "none recorded"])
def test_looks_of_this_and_the_first_version_are_read_back(value) -> None:
    text = replace(private(), tuned_on_private_data=value).to_json()
    assert Manifest.from_json(text).tuned_on_private_data is value or isinstance(value, str)
    assert Manifest.from_json(text).to_json() == text


@for_each("value", ["no", "", None, 1, 0, ["recorded"]])
def test_other_words_about_looks_are_refused(value) -> None:
    with pytest.raises(GuaranteeError, match="tuned_on_private_data"):
        replace(private(), tuned_on_private_data=value)
