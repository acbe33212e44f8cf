"""Rows and populations that tests of the ledger share."""

from shoal.privacy.ledger import AlreadyReleased, Ledger, Reservation, StoredRow
from shoal.privacy.ledger.rules import token_sha256
from shoal.privacy.ledger.state import GENESIS, link

HASH = "ab" * 32


def reserved(answer: Reservation | AlreadyReleased) -> Reservation:
    assert isinstance(answer, Reservation)
    return answer


def spent(ledger: Ledger, name: str = "town") -> int:
    return ledger.state().population(name).spent_nano


DIGEST = "cd" * 32


def write_row(ledger: Ledger, **content: object) -> None:
    """A row as it is given, past the rules of `Ledger`; dated 2019 unless it says otherwise."""

    def decide(rows: list[StoredRow]) -> StoredRow:
        previous = rows[-1].digest if rows else GENESIS
        return link(previous, len(rows) + 1, {"at": "2019-03-01T10:20:30.000000+00:00", **content})

    ledger.store.append(decide)


OLD_RESERVE = {
    "kind": "reserve",
    "population": "old",
    "reservation": "00aa",
    "token_sha256": token_sha256("secret"),
    "key": "week 1",
    "what": "density",
    "cost_nano": 40,
    "pure_epsilon_nano": None,
}
