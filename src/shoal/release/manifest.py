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
    NANO,
    PURE,
    SMALLEST_DELTA,
    TAU,
    TAU_UNIT,
    ZCDP,
    Loss,
    compose,
    delta_for,
    epsilon_for,
    slack_fits,
)
from shoal.privacy.guarantee import PROMISE_VERSION, in_full, promise
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


_ROUNDING = 1e-9  # of floating point in the conversion; far below any digit that is shown


def price_problems(manifest: Manifest) -> list[str]:
    """Where a differentially private manifest promises more than its own numbers allow."""
    if not manifest.is_private:
        return []
    guarantee, problems = manifest.guarantee, []
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    version = guarantee.get("promise_version", 1)
    if "promise_version" in guarantee and (type(version) is not int or version != PROMISE_VERSION):
        problems.append("the version of its promise is not one that this version of shoal knows.")
    elif manifest.promise != promise(epsilon, delta, guarantee["unit"], version):
        problems.append("the promise does not say the epsilon, delta and unit of the guarantee.")
    spent, law = spent_loss(manifest), law_of(guarantee)
    if spent is None:
        return [*problems, "its spends must be listed, each with a rho or an epsilon above 0."]
    if law == PURE and (delta or spent.law != PURE):
        return [*problems, "it is called pure, and has a delta or a spend without an epsilon."]
    listed = spent.rho_nano if law == PURE else spent.amount(law)
    rho_nano = _nano(guarantee["rho"]) if "rho" in guarantee else listed
    if listed != rho_nano:
        more = "more" if listed > rho_nano else "less"
        problems.append(f"the spends add up to {more} than the rho of the guarantee.")
    if any(_more_than_pure(spend, law) for spend in manifest.spends):
        problems.append("a spend has a rho above that of its epsilon.")
    if law == GDP and spent.tau < TAU:
        problems.append("it leaves the slack of Gaussian noise out.")
    whole = replace(spent, **{_FIELD[law]: max(rho_nano, listed)})
    if not covers(guarantee, whole):
        problems.append(
            f"epsilon = {in_full(epsilon)} is below what was spent: {_allowed(whole, delta, law)}."
        )
    return problems


_FIELD = {PURE: "rho_nano", ZCDP: "rho_nano", GDP: "gdp_nano"}  # of a loss, that is the rho of a law


def check_charged(manifest: Manifest, loss: Loss) -> None:
    """A manifest may promise less than was paid for, never more, and lists all that was spent."""
    guarantee, spent, law = manifest.guarantee, spent_loss(manifest), law_of(manifest.guarantee)
    rho_holds = "rho" not in guarantee or _nano(guarantee["rho"]) >= loss.amount(law)
    tau_holds = law != GDP or round(guarantee["tau"] * TAU_UNIT) >= loss.tau
    if not (rho_holds and tau_holds and covers(guarantee, loss)):
        raise GuaranteeError("manifest-price", "the manifest promises more than the ledger was charged for.")
    if spent is None or (spent.law == PURE) != (loss.law == PURE) or spent.amount(law) != loss.amount(law):
        raise GuaranteeError("manifest-price", "the manifest lists other spends than the ledger is charged.")
    problems = price_problems(manifest)
    if problems:
        raise GuaranteeError("manifest-price", f"the manifest does not agree with itself: {problems[0]}")


def covers(guarantee: Mapping[str, Any], loss: Loss) -> bool:
    """Whether (epsilon, delta) is no more than a loss allows: by its pure epsilon, or by rho and law."""
    epsilon, delta, law = guarantee["epsilon"], guarantee["delta"], law_of(guarantee)
    pure = loss.pure_epsilon_nano
    if pure is not None and pure <= epsilon * NANO * (1 + _ROUNDING):
        return True
    if law == PURE or delta <= 0 or (law == GDP and loss.gdp_nano is None):
        return False
    if law == GDP and not slack_fits(loss.tau, epsilon, delta):
        return False
    return delta_for(loss.amount(law) / NANO, epsilon, law) <= delta * (1 + _ROUNDING)


def spent_loss(manifest: Manifest) -> Loss | None:
    """What the spends of a manifest add up to; None where one has no amount, or there is none."""
    law = law_of(manifest.guarantee)
    losses = [_loss(spend, law) for spend in manifest.spends]
    known = [loss for loss in losses if loss is not None]
    if not known or len(known) != len(losses):
        return None
    tau = round(manifest.guarantee["tau"] * TAU_UNIT) if law == GDP else 0
    return replace(compose(known), tau=tau)


def _more_than_pure(spend: Mapping[str, Any], law: str) -> bool:
    """Whether a spend states more rho than its pure epsilon can cost; shares are rounded up."""
    if "rho" not in spend or "epsilon" not in spend:
        return False
    pure = Loss.pure(_nano(spend["epsilon"]))
    return _nano(spend["rho"]) > pure.amount(law) * (1 + 1e-6) + 10


def _loss(spend: Mapping[str, Any], law: str) -> Loss | None:
    given = [spend[name] for name in ("rho", "epsilon") if name in spend]
    if (
        (law == PURE and "rho" in spend)
        or not given
        or not all(is_amount(amount) and _nano(amount) > 0 for amount in given)
    ):
        return None
    if any(amount != _nano(amount) / NANO for amount in given):  # the ledger counts in billionths
        return None
    rho = _nano(spend["rho"]) if "rho" in spend else None
    gdp = rho if law == GDP else None
    if "epsilon" not in spend:
        return None if rho is None else Loss(rho, None, gdp)
    pure = Loss.pure(_nano(spend["epsilon"]))
    return pure if rho is None else replace(pure, rho_nano=rho, gdp_nano=gdp or pure.gdp_nano)


def _nano(amount: float) -> int:
    return round(amount * NANO)


def _allowed(loss: Loss, delta: float, law: str) -> str:
    if delta > 0 and law != PURE:
        amount = loss.amount(law)
        least = in_full(epsilon_for(amount, delta, law))
        return f"rho = {in_full(amount / NANO)} at delta = {in_full(delta)} allows {least}"
    if loss.pure_epsilon_nano is None:
        return "without a delta every spend needs its epsilon"
    return f"the spends add up to epsilon = {in_full(loss.pure_epsilon_nano / NANO)}"


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
