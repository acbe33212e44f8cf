"""A release with ids of any kind: the key's users and records are numbered, and the key itself is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from shoal.attacks.tracker.evidence import Progress, Verified, make_tables, verify_tables
from shoal.attacks.tracker.index import build_index
from shoal.attacks.tracker.tables import Tables, check_claim
from shoal.errors import PlanError

# what can be wrong with the key: name -> in words, for counts
KEY_STRUCTURE = {
    "users_twice_in_key": "users that stand in the key more than once",
    "records_twice_in_key": "records that stand in the key more than once",
    "users_without_key": "users with samples that are not in the key",
    "key_users_without_sample": "users in the key without a sample in the window",
    "records_without_key": "boxes of records that are not in the key",
    "records_not_as_said": "records more or fewer than the manifest says",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Key:
    """Row j of the key is user j and record j of the tables; only the first of repeated ids counts."""

    users: np.ndarray = field(repr=False)
    records: np.ndarray = field(repr=False)
    structure: Mapping[str, int]

    @property
    def size(self) -> int:
        return len(self.users)


def read_key(users: Sequence | np.ndarray, records: Sequence | np.ndarray, *, said: int | None = None) -> Key:
    """Drop rows that repeat a user or a record, and count them; `said` is the manifest's number of records.

    >>> read_key(["a", "b", "b"], [7, 9, 4]).structure["users_twice_in_key"]
    1
    """
    who, numbers = np.asarray(users), np.asarray(records)
    if who.ndim != 1 or who.shape != numbers.shape:
        raise PlanError("key-shape", "the key must be as many users as records.")
    new_user, new_record = _first(who), _first(numbers)
    good = new_user & new_record
    structure = {
        "users_twice_in_key": int((~new_user).sum()),
        "records_twice_in_key": int((~new_record).sum()),
        "records_not_as_said": abs(int(said) - len(who)) if said is not None else 0,
    }
    return Key(users=who[good], records=numbers[good], structure=structure)


def _first(ids: np.ndarray) -> np.ndarray:
    """Whether a value stands here for the first time."""
    first = np.zeros(len(ids), np.bool_)
    first[np.unique(ids, return_index=True)[1]] = True
    return first


def number_of(ids: np.ndarray, values: np.ndarray) -> np.ndarray:
    """int32: the row of each value in `ids`, -1 where it is not there."""
    if not len(ids) or not len(values):
        return np.full(len(values), -1, np.int32)
    order = np.argsort(ids, kind="stable")
    place = np.minimum(np.searchsorted(ids, values, sorter=order), len(ids) - 1)
    rows = order[place].astype(np.int32)
    return np.where(ids[rows] == values, rows, np.int32(-1))


def keyed_tables(
    samples: Sequence[np.ndarray], boxes: Sequence[np.ndarray], key: Key, *, steps: int, strangers: int = 0
) -> Tables:
    """Tables of numbered samples (user row or -1, t, x, y) and boxes (record row or -1, ...).

    `strangers` are users with samples that are not in the key, where their samples were left out already.
    """
    user, *rest = samples
    known = user >= 0
    if not known.all():
        user, rest = user[known], [column[known] for column in rest]
    tables = make_tables((user, *rest), boxes, users=key.size, steps=steps)
    empty = int((np.diff(tables.sample_start) == 0).sum())
    lost = np.asarray(boxes[0]) < 0
    tables.structure.update(
        **key.structure,
        users_without_key=strangers,
        key_users_without_sample=empty,
        records_without_key=int(lost.sum()),
    )
    tables.structure["boxes_of_no_record"] -= int(lost.sum())
    return tables


def verify_release(
    samples: Sequence[Sequence],
    boxes: Sequence[Sequence],
    key: tuple[Sequence, Sequence],
    *,
    steps: int,
    k: int,
    tau: int,
    records: int | None = None,
    progress: Progress | None = None,
) -> Verified:
    """Check samples (user, t, x, y) and boxes (record, t0, t1, x0, x1, y0, y1) under a key (users, records).

    Users and records in the outcome are rows of the key.

    >>> verify_release((["a", "b"], [3, 4], [7, 7], [5, 6]),
    ...                ([50, 40], [3, 3], [4, 4], [7, 7], [7, 7], [5, 5], [6, 6]),
    ...                (["a", "b"], [40, 50]), steps=10, k=2, tau=5).passed
    True
    """
    rows = read_key(*key, said=records)
    check_claim(k, tau, rows.size, steps)
    who, numbers = np.asarray(samples[0]), np.asarray(boxes[0])
    user = number_of(rows.users, who)
    strangers = len(np.unique(who[user < 0]))
    columns = (user, *(np.asarray(column) for column in samples[1:]))
    cuboids = (number_of(rows.records, numbers), *(np.asarray(column) for column in boxes[1:]))
    tables = keyed_tables(columns, cuboids, rows, steps=steps, strangers=strangers)
    return verify_tables(tables, build_index(tables).arrays, k=k, tau=tau, progress=progress)
