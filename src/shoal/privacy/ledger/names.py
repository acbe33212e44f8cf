"""Names of populations: one spelling per name, and no two names that a reader could take for one another.

>>> population_name("  Cafe\u0301 2026 ")                       # stripped, and composed to NFC
'Café 2026'
>>> skeleton("Paris-2026") == skeleton("paris 2O26")
True
>>> skeleton("\u0440aris") == skeleton("paris")              # Cyrillic er
True
>>> skeleton("paris-2026") == skeleton("paris-2027")
False

Exact amounts of budget: integers of 1e-9 (`nano`), rounded towards more cost.

>>> cost_nano(Loss.pure(1_000_000_000), "rho")   # epsilon = 1 costs rho = 0.5
500000000
>>> cost_nano(Loss.pure(1), "rho")               # never rounded down to nothing
1
>>> show_nano(50_000_000), show_nano(123)
('0.0500', '0.000000123')
"""

from __future__ import annotations

import unicodedata

from shoal.errors import LedgerError
from shoal.privacy.accounting import NANO, Loss

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
    """Why a reader could not tell this name from another, or None: blank letters, or letters of two scripts.

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
    """What is left of a name once case, marks, spaces, punctuation and look-alike letters are ignored."""
    plain = unicodedata.normalize("NFKD", name).translate(_CAPITALS).casefold().translate(_ALIKE)
    letters = [_small_capital(each) for each in plain if unicodedata.category(each)[0] in "LNS"]
    return "".join(letters).replace("i", "l").replace("rn", "m").replace("vv", "w")


def _small_capital(letter: str) -> str:
    """The Latin letter that a small capital stands for."""
    name = unicodedata.name(letter, "")
    return name[-1].lower() if name[:-1] == "LATIN LETTER SMALL CAPITAL " else letter


LARGEST_NANO = 10**18
CURRENCIES = ("rho", "epsilon")
LIMIT_FLAG = {"rho": "--rho", "epsilon": "--pure-epsilon"}  # that sets a limit in this currency


def cost_nano(loss: Loss, currency: str) -> int:
    """What a release costs in the currency of its population.

    A pure release costs epsilon^2 / 2 in rho for its whole epsilon, whatever its parts add up to.
    """
    pure = loss.pure_epsilon_nano
    if pure is not None:
        check_nano(pure, "epsilon")
        cost = pure if currency == "epsilon" else Loss.pure(pure).rho_nano
        return check_nano(cost, currency)
    check_nano(loss.rho_nano, "rho")
    if currency == "epsilon":
        raise LedgerError(
            "not-pure",
            "this population is counted in pure epsilon and takes pure releases only; this one has a rho.",
            "Choose a Laplace mechanism, or release under a population with a rho budget.",
        )
    return loss.rho_nano


def check_nano(amount: object, name: str) -> int:
    """The amount itself if it is a whole number of nano above 0; everything else is refused."""
    if type(amount) is not int or not 0 < amount <= LARGEST_NANO:
        raise LedgerError(
            "bad-amount",
            f"{name} must be a whole number of 1e-9, above 0 and at most 1e9; got {amount!r}.",
            "Amounts are Python integers: 0.5 is 500_000_000.",
        )
    return amount


def show_nano(nano: int) -> str:
    """All digits of an amount, at least four after the point."""
    whole, part = divmod(nano, NANO)
    digits = f"{part:09d}".rstrip("0").ljust(4, "0")
    return f"{whole}.{digits}"
