"""The manifest of a release: whom it protects and how much, what was public, what was spent, every file.

The first key is the unit, so that nobody reads a number without knowing whose. A manifest of another
guarantee than differential privacy cannot hold an epsilon, a delta or a rho anywhere.

A recipient has no ledger. What can be held against a manifest that promises too much is whether its own
numbers agree: the sentence, epsilon, delta and rho, the spends behind them, and the audit case.

An audit case is a released method with its noise family, as it is audited. It is called kind-method, followed
by the family where a method has several, and by what else decides how its mechanism is built. Evidence and
the page find the audit of a release by it. Cases are those of the methods of shoal
(shoal/mechanisms/methods.py), which load no mechanism, and those of the baselines, whether they are
installed or not (shoal/baselines.py).

>>> audit_case("density", "laplace", pure=True)[:4], audit_case("density", "laplace", pure=True).mechanism
(('density-laplace', 'density', 'laplace', 'laplace'), 'density-scaled-laplace')
>>> audit_case("synthetic", "bridges", pure=False).mechanism
'synthetic-bridges-zcdp'
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import shoal
from shoal import baselines
from shoal.baselines import GAUSSIAN, LAPLACE, AuditCase
from shoal.errors import GuaranteeError
from shoal.mechanisms.methods import METHODS
from shoal.privacy.accounting import (
    GDP,
    PURE,
    SMALLEST_DELTA,
    ZCDP,
)
from shoal.privacy.ledger.rules import is_sha256

DIFFERENTIAL_PRIVACY = "differential privacy"
NOT_DIFFERENTIALLY_PRIVATE = "not differentially private"
NOTHING_PROMISED = "Nothing is promised:"  # begins the promise of records that the verifier refuted
REFUTED = f"{NOTHING_PROMISED} the verifier found windows in which too few records fit. Not for publication."
SEEDED_NOTE = "not for publication: the noise was seeded and can be computed again"
MANIFEST = "manifest.json"
RECORDED, NONE_RECORDED = "recorded", "none recorded"  # looks at private data, in the owner's ledger
LARGEST_AMOUNT = 10**9  # of epsilon and rho, as in the ledger
LARGEST_WHOLE = 2**63 - 1
_PRICE_WORDS = {"epsilon", "delta", "rho"}
# Control characters but tab and line feed, marks that turn the direction of text, halves of surrogate pairs.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All information for the recipient. Fields are written in this order."""

    unit: str  # "One user: all events of one person in the window."
    promise: str  # one sentence
    guarantee: Mapping[str, Any]  # kind, unit, neighbours, and epsilon, delta, rho where they exist
    public: Mapping[str, Any]  # every parameter given by the owner
    # Counts and measured shares that were read from the data, without noise; only where nothing is promised
    # of them. Left out where there are none.
    read_from_data: Mapping[str, Any] = field(default_factory=dict)
    spends: Iterable[Mapping[str, Any]]  # name, mechanism, rho or epsilon
    audit_case: str | None = None  # as `shoal audit --list` calls it; left out where there is none
    population: str
    input: Mapping[str, Any]  # shape and column roles; counts only where noised
    columns: Mapping[str, Any]  # what each column of each file means
    # Grade, sentence, advice and figures from the published numbers; earlier releases have none.
    verdict: Mapping[str, Any] = field(default_factory=dict)
    licence: str = "none given by the owner yet"
    package: Mapping[str, str] = field(
        default_factory=lambda: {"name": "shoal", "version": shoal.__version__}
    )
    reproducible: bool = False
    # What the owner's ledger holds; releases of the first version say true or false.
    tuned_on_private_data: str | bool = NONE_RECORDED
    supersedes: str | None = None  # manifest hash of an earlier release that this one replaces
    # The day alone: the moment would tell how long the run took, which depends on the data.
    created: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())
    files: Mapping[str, FileEntry] = field(default_factory=dict)  # filled in when the folder is sealed

    def __post_init__(self) -> None:
        object.__setattr__(self, "spends", tuple(self.spends))
        _check_shape(self)
        _check_files(self.files)
        _check_values(self._plain())
        _check_unit(self)
        if self.is_private:
            if self.read_from_data:
                raise _malformed("a differentially private release holds nothing read from the data.")
            _check_price(self.guarantee)
        else:
            _refuse_price(self)

    @property
    def is_private(self) -> bool:
        """Whether the guarantee is differential privacy."""
        return self.guarantee.get("kind") == DIFFERENTIAL_PRIVACY

    def to_json(self) -> str:
        """The one text of this manifest: fixed order of keys, every digit of every number."""
        return json.dumps(self._plain(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read a manifest back; anything but a text that `to_json` writes is refused."""
        try:
            plain = json.loads(text, object_pairs_hook=_no_duplicates, parse_int=_whole)
            plain.pop("note", None)
            plain["files"] = {name: FileEntry(**entry) for name, entry in plain["files"].items()}
            manifest = cls(**plain)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise _malformed("it is not a manifest that this version knows.") from error
        if manifest.to_json() != text:
            raise _malformed("it is not written the way a manifest is.")
        return manifest

    def _plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for name in (each.name for each in fields(self)):
            if name in ("supersedes", "read_from_data", "audit_case", "verdict") and not getattr(self, name):
                continue
            plain[name] = getattr(self, name)
            if name == "reproducible" and self.reproducible:
                plain["note"] = SEEDED_NOTE
        plain["spends"] = [dict(spend) for spend in self.spends]
        plain["files"] = {name: vars(entry) for name, entry in sorted(self.files.items())}
        return plain


def is_tuned(value: Any) -> bool:
    """Whether a manifest's `tuned_on_private_data` records a look; the first version wrote true."""
    return value is True or value == RECORDED


def sha256_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check_shape(manifest: Manifest) -> None:
    """Each field is of its own kind: a text, yes or no, or named values."""
    kinds = {
        str: ("unit", "promise", "population", "licence", "created"),
        bool: ("reproducible",),
        Mapping: ("guarantee", "public", "read_from_data", "input", "columns", "verdict", "package", "files"),
    }
    for kind, names in kinds.items():
        for name in names:
            if not isinstance(getattr(manifest, name), kind):
                raise _malformed(f"its {name} is not of the right kind.")
    if manifest.supersedes is not None and not is_sha256(manifest.supersedes):
        raise _malformed("its supersedes is not a SHA-256 hash.")
    if manifest.tuned_on_private_data not in (RECORDED, NONE_RECORDED) and not isinstance(
        manifest.tuned_on_private_data, bool
    ):
        raise _malformed(f"its tuned_on_private_data is neither {RECORDED!r} nor {NONE_RECORDED!r}.")
    if manifest.audit_case is not None and not isinstance(manifest.audit_case, str):
        raise _malformed("its audit_case is not a text.")
    if not all(isinstance(spend, Mapping) for spend in manifest.spends):
        raise _malformed("its spends are not named values.")


def _check_files(files: Mapping[str, Any]) -> None:
    for entry in files.values():
        known = isinstance(entry, FileEntry) and isinstance(entry.sha256, str) and type(entry.bytes) is int
        if not known or not re.fullmatch(r"[0-9a-f]{64}", entry.sha256) or entry.bytes < 0:
            raise _malformed(
                "its files are not entries with a hash of 64 digits and a whole number of bytes."
            )


def _check_unit(manifest: Manifest) -> None:
    """The unit is said first and is called what it is: a trip is never called a user."""
    name = manifest.guarantee.get("unit")
    kind = manifest.guarantee.get("kind")
    if kind not in (DIFFERENTIAL_PRIVACY, NOT_DIFFERENTIALLY_PRIVATE):
        raise _malformed(f"its kind of guarantee must be {DIFFERENTIAL_PRIVACY!r} or the opposite.")
    if not isinstance(name, str) or not re.match(rf"One {re.escape(name)}\b", manifest.unit):
        raise _malformed("its first line must name the unit of the guarantee: 'One user: ...'.")
    if not manifest.promise.strip() or "\n" in manifest.promise:
        raise _malformed("its promise must be one sentence on one line.")
    if any("\n" in text for text in (manifest.unit, name, manifest.population)):
        raise _malformed("its unit and its population must be on one line.")


def _check_price(guarantee: Mapping[str, Any]) -> None:
    epsilon, delta, rho = (guarantee.get(name, math.nan) for name in ("epsilon", "delta", "rho"))
    if not is_amount(epsilon):
        raise _malformed("differential privacy needs an epsilon above 0 and at most 1e9.")
    if not _number(delta) or not (delta == 0 or SMALLEST_DELTA <= delta < 1):
        raise _malformed(f"differential privacy needs a delta of 0, or from {SMALLEST_DELTA:g} to below 1.")
    if "rho" in guarantee and not is_amount(rho):
        raise _malformed("rho must be a number above 0 and at most 1e9 where it is given.")
    if law_of(guarantee) not in (PURE, GDP, ZCDP) or (law_of(guarantee) == GDP) != ("tau" in guarantee):
        raise _malformed("its law is not one that this version knows, or the slack of its noise is missing.")
    if "tau" in guarantee and not (_number(guarantee["tau"]) and 0 <= guarantee["tau"] <= 1):
        raise _malformed("its tau must be a number from 0 to 1.")
    neighbours = guarantee.get("neighbours")
    if not isinstance(neighbours, str) or not neighbours or "\n" in neighbours:
        raise _malformed("differential privacy needs its neighbours named.")


def law_of(guarantee: Mapping[str, Any]) -> str:
    """The law of a price; zCDP in manifests from before there was a choice."""
    return str(guarantee.get("law", ZCDP))


def _refuse_price(manifest: Manifest) -> None:
    """Whatever is not differentially private must not read as if it were."""
    plain = manifest._plain()
    if any(_PRICE_WORDS & set(re.split(r"[^a-z]+", key.lower())) for key in _keys(plain)):
        raise _malformed("a release that is not differentially private has no epsilon, delta or rho.")
    if plain["spends"]:
        raise _malformed("a release that is not differentially private spends no budget.")
    sentences = f"{manifest.unit} {manifest.promise}".lower().replace(NOT_DIFFERENTIALLY_PRIVATE, "")
    if re.search(r"differential|epsilon|\bdp\b", sentences):
        raise _malformed("its sentences read as differential privacy, which it is not.")


def _keys(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _keys(inner)


def _check_values(value: Any) -> None:
    """Only what JSON can hold exactly and a screen can show: text, finite numbers, lists, yes or no."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise _malformed("its keys must be text.")
        for key, inner in value.items():
            _check_values(key)
            _check_values(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_values(inner)
    elif not isinstance(value, str | int | float | bool | None):
        raise _malformed(f"it cannot hold a value of type {type(value).__name__}.")
    elif isinstance(value, float) and not math.isfinite(value):
        raise _malformed("its numbers must be finite.")
    elif isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise _malformed("its whole numbers must be below 2^63.")
    elif isinstance(value, str) and _UNSEEN.search(value):
        raise _malformed("its texts must hold no control characters.")


def is_amount(value: Any) -> bool:
    """Whether a value can be an epsilon or a rho."""
    return _number(value) and 0 < value <= LARGEST_AMOUNT


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError("a number is too long")
    return int(digits)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key is given twice")
    return values


def _malformed(reason: str) -> GuaranteeError:
    return GuaranteeError("manifest-malformed", f"the manifest is not valid: {reason}")


def _cases() -> Iterator[AuditCase]:
    for table in METHODS.values():
        for method in table.values():
            for case, entry in method.cases.items():
                yield AuditCase(case, method.kind, method.name, entry.family, entry.name)
    yield from baselines.CASES


CASES = {each.case: each for each in _cases()}


def audit_case(
    kind: str, method: str, *, pure: bool, spends: Collection[str] = ("trips",), each_trip: bool = False
) -> AuditCase | None:
    """The case of a release; None for a method that is not part of the package.

    Args:
        spends: names of the mechanism's spends.
        each_trip: the unit is a trip, not a user.
    """
    name = f"{kind}-{method}"
    if name not in CASES:
        name = f"{name}-{LAPLACE if pure else GAUSSIAN}"
    variants = (
        f"{name}-trip" if each_trip else "",
        f"{name}-declared" if "trips" not in spends else "",
        name,
    )
    return next((CASES[each] for each in variants if each in CASES), None)


def case_of(manifest: Manifest) -> AuditCase | None:
    """The case that a manifest's method, spends and unit determine; None where nothing was spent."""
    spends, public = list(manifest.spends), manifest.public
    if not spends:
        return None
    kind = str(spends[0].get("mechanism", "")).partition("-")[0]
    return audit_case(
        kind,
        str(public.get("mechanism") if kind == "query" else public.get("method")),
        pure=all("epsilon" in spend for spend in spends),
        spends=[str(spend.get("name")) for spend in spends],
        each_trip=manifest.guarantee.get("unit") == "trip",
    )


def with_audit_case(manifest: Manifest) -> Manifest:
    """The same manifest, naming its case."""
    case = case_of(manifest)
    return manifest if case is None else replace(manifest, audit_case=case.case)


def case_problems(manifest: Manifest) -> list[str]:
    """A case that is not the one of the release; earlier releases name none."""
    case = case_of(manifest)
    if manifest.audit_case is None or (case is not None and manifest.audit_case == case.case):
        return []
    return ["the audit case is not that of its method, spends and unit."]


def entry_name(name: str) -> str:
    """The name in the registry of a case, or of an entry itself."""
    return CASES[name].mechanism if name in CASES else name
