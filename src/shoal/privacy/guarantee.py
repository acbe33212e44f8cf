"""The promise of a release in numbers and in one sentence.

The unit of privacy: whose whole contribution the guarantee covers.

Names of units and populations: no two that a reader could take for one another.

>>> skeleton("Paris-2026") == skeleton("paris 2O26")
True
>>> skeleton("\u0440aris") == skeleton("paris")              # Cyrillic er
True
>>> skeleton("paris-2026") == skeleton("paris-2027")
False
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Any

from shoal.errors import PlanError
from shoal.privacy.accounting import NANO, PURE, TAU_UNIT, ZCDP, Loss

PROMISE_VERSION = 2  # of the sentence, which `shoal verify` compares literally


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy for one unit, add or remove, and the price behind it.

    >>> print(Guarantee.of(Loss.pure(5 * 10**8), delta=None, unit=Unit()).sentence.partition(". ")[2])
    An adversary who gives even odds that a particular user is in the data is right at most 62.25 % of the \
time after seeing the release.
    """

    epsilon: float
    delta: float
    loss: Loss
    unit: Unit
    law: str  # that the price follows

    @classmethod
    def of(cls, loss: Loss, *, delta: float | None, unit: Unit, law: str | None = None) -> Guarantee:
        """What a loss promises by its own law or the named one: pure when it is pure."""
        if loss.pure_epsilon_nano is not None:
            epsilon = loss.pure_epsilon_nano / NANO
            return cls(epsilon=epsilon, delta=0.0, loss=loss, unit=unit, law=PURE)
        if delta is None:
            raise ValueError("a loss that is not pure needs a delta")
        law = loss.law_for(delta, law)
        return cls(epsilon=loss.epsilon(delta, law), delta=delta, loss=loss, unit=unit, law=law)

    @property
    def sentence(self) -> str:
        return promise(self.epsilon, self.delta, self.unit.name)

    def to_manifest(self) -> dict:
        return {
            "kind": "differential privacy",
            "epsilon": self.epsilon,
            "delta": self.delta,
            **price_in_manifest(self.loss, self.law),
            "unit": self.unit.name,
            "neighbours": f"add or remove one {self.unit.name}",
            "promise_version": PROMISE_VERSION,
        }


def price_in_manifest(loss: Loss, law: str) -> dict[str, Any]:
    """The price as manifests state it: of a pure release its epsilon alone, else the law and its rho.

    Manifests without a law are from before there was a choice, and of zCDP.
    """
    if law == PURE:
        return {"law": law}
    if law == ZCDP:
        return {"rho": loss.rho}
    return {"law": law, "rho": loss.amount(law) / NANO, "tau": loss.tau / TAU_UNIT}


def promise(epsilon: float, delta: float, unit: str, version: int = PROMISE_VERSION) -> str:
    """States (epsilon, delta) for a unit: the bound, and what it means for an adversary.

    Manifests without a `promise_version` carry the sentence of version 1, which is kept to verify them.
    """
    if version == 1:
        tail = "" if delta == 0 else f", but for a chance of {in_full(delta)}"
        return (
            f"Adding or removing one {unit} changes the probability of any output "
            f"by a factor of at most e^{in_full(epsilon)}{tail}."
        )
    power = "e" if epsilon == 1 else f"e^{in_full(epsilon)}"
    bound = bound_sentence(f"{power} (epsilon = {in_full(epsilon)})", delta, unit)
    return f"{bound} {even_odds(epsilon, delta, unit)}"


def bound_sentence(factor: str, delta: float, unit: str) -> str:
    """(epsilon, delta)-differential privacy in one sentence; `factor` is the text for e^epsilon.

    >>> print(bound_sentence("e (epsilon = 1)", 1e-6, "user").partition("changes ")[2])
    its probability by at most a factor of e (epsilon = 1), plus delta = 0.000001.
    """
    plus = "" if delta == 0 else f", plus delta = {_positional(delta)}"
    return (
        f"For any set of possible outputs, adding or removing one {unit} changes its probability by at most "
        f"a factor of {factor}{plus}."
    )


def even_odds(epsilon: float, delta: float, unit: str) -> str:
    """The promise as the success rate of a test between two neighbouring data sets.

    >>> print(even_odds(1, 1e-6, "user").partition("data ")[2])
    is right at most 73.11 % of the time after seeing the release.
    """
    return (
        f"An adversary who gives even odds that a particular {unit} is in the data is right at most "
        f"{in_full(float(100 * largest_accuracy(epsilon, delta)))} % of the time after seeing the release."
    )


def largest_accuracy(epsilon: float, delta: float) -> Decimal:
    """(e^epsilon + delta) / (1 + e^epsilon), rounded up to four decimals.

    A test at even prior odds is right with probability (1 + TV) / 2, and (epsilon, delta) in both directions
    bounds the total variation by TV <= (e^epsilon - 1 + 2 delta) / (e^epsilon + 1). Both are attained.
    """
    with localcontext(prec=60):
        # 1 / (1 + e^epsilon) is below 1e-20 beyond 50; capping epsilon keeps exp in range and rounds to 1.
        odds = Decimal(min(epsilon, 50.0)).exp()
        return ((odds + Decimal(delta)) / (1 + odds)).quantize(Decimal("0.0001"), ROUND_CEILING)


def in_full(number: float) -> str:
    """Every digit of a promised number: rounding for looks might promise more than was paid for.

    >>> in_full(1.0), in_full(1.0000004), in_full(1e-6)
    ('1', '1.0000004', '1e-06')
    """
    return repr(float(number)).removesuffix(".0")


def _positional(delta: float) -> str:
    """All digits of a delta without an exponent, down to 1e-9; smaller ones have too many zeros to read."""
    return in_full(delta) if delta < 1e-9 else f"{Decimal(repr(float(delta))):f}"


# Letters of other scripts, and digits, that are drawn like Latin letters. Greek capitals come first, since
# small letters differ.
_CAPITALS = str.maketrans("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "abezhikmnoptyx")
_ALIKE = str.maketrans(
    "авекмнорстухіјѕԁһӏԛԝѵ" + "αβεικνορτυχηγ" + "01|" + "ıſɡɑ",
    "abekmhopctyxijsdhlqwv" + "abeikvoptuxny" + "oll" + "isga",
)
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180e\u2800\u3164\uffa0"  # letters and signs that show nothing
# Scripts whose letters may not stand beside Latin ones.
_ALONE = {"CYRILLIC", "GREEK", "ARMENIAN", "GEORGIAN", "CHEROKEE", "COPTIC", "LISU"}


def population_name(name: str) -> str:
    """The one spelling of a name: NFC, without space around it."""
    return unicodedata.normalize("NFC", name).strip()


def hidden_difference(name: str) -> str | None:
    """Why this name could be mistaken for another, or None: blank letters, or letters of two scripts.

    >>> hidden_difference("Paris 2026"), hidden_difference("Москва-2026")
    (None, None)
    >>> hidden_difference("t\u043ewn")
    'it mixes Cyrillic and Latin letters'
    """
    if any(each in _BLANK for each in name):
        return "it has a letter that shows nothing"
    scripts = {unicodedata.name(each, "?").split()[0] for each in name if each.isalpha()}
    if len(scripts) > 1 and scripts & _ALONE:
        return f"it mixes {' and '.join(sorted(each.capitalize() for each in scripts))} letters"
    return None


def skeleton(name: str) -> str:
    """A name without case, marks, spaces, punctuation and differences between look-alike letters."""
    plain = unicodedata.normalize("NFKD", name).translate(_CAPITALS).casefold().translate(_ALIKE)
    letters = [_small_capital(each) for each in plain if unicodedata.category(each)[0] in "LNS"]
    return "".join(letters).replace("i", "l").replace("rn", "m").replace("vv", "w")


def _small_capital(letter: str) -> str:
    """The Latin letter that a small capital stands for."""
    name = unicodedata.name(letter, "")
    return name[-1].lower() if name[:-1] == "LATIN LETTER SMALL CAPITAL " else letter


TRIP = "trip"  # one trip of one user
_PERSONS = {skeleton(name) for name in ("person", "persons", "people", "subscriber", "subscribers")}


@dataclass(frozen=True)
class Unit:
    """One user by default; the owner may declare another where ids do not identify persons.

    Contributions are bounded per value of the column that plays the role `user`. So another unit needs that
    column named: it must hold one value per unit.

    >>> Unit().sentence
    'One user: all events of one person in the window.'
    >>> print(Unit("vehicle-day", "shift").sentence[:65])
    One vehicle-day: all events with one value of the column "shift".
    """

    name: str = "user"
    column: str = "user"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w([\w .-]*\w)?", self.name) or not self.name.isprintable():
            raise PlanError(
                "unit-name",
                f"a unit of privacy is named by letters, digits, spaces, dots and dashes; got {self.name!r}.",
                "Pass --unit user.",
            )
        if skeleton(self.name) in _PERSONS:
            raise PlanError(
                "plan-unit",
                "where the promise covers a person, the unit is called user.",
                "Pass --unit user.",
            )
        for known in ("user", TRIP):
            if self.name != known and skeleton(self.name) in (skeleton(known), skeleton(f"{known}s")):
                raise PlanError("plan-unit", f"no unit is called {self.name!r}.", f"Did you mean {known}?")

    @property
    def sentence(self) -> str:
        if self.name == "user":
            return "One user: all events of one person in the window."
        return (
            f'One {self.name}: all events with one value of the column "{self.column}". '
            "As declared by the owner, this is not a person, and no promise per person is made."
        )


def declared_size(value: int) -> int:
    """A size that the owner declares, as it is used and printed: rounded to two significant digits.

    A courtesy to an owner who types a count from the data. It is no guarantee.

    >>> [declared_size(value) for value in (7, 42, 397, 99_500, 145_000)]
    [7, 42, 400, 100000, 150000]
    """
    step = 10 ** max(len(str(value)) - 2, 0)
    return (value + step // 2) // step * step
