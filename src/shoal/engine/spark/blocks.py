"""Pieces of work that need nothing of each other, each as a Spark task: blocks of people to be hidden."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from shoal.engine.spark.shuffle import PACKED, PIECE_BYTES, whole
from shoal.engine.spark.tasks import Each

if TYPE_CHECKING:
    from shoal.engine.spark.jobs import Jobs

Item = TypeVar("Item")
Made = TypeVar("Made")
WAVES = 2  # items per core that are on the cluster at a time


def each_block(jobs: Jobs, work: Callable[[Item], Made], items: Iterable[Item], count: int) -> Iterator[Made]:
    """work(item) for every item, in order; some at a time, so that this process holds few."""
    at_once = max(1, min(count, WAVES * jobs.session.sparkContext.defaultParallelism))
    waiting = iter(items)
    while wave := list(itertools.islice(waiting, at_once)):
        rows = [row for number, item in enumerate(wave) for row in _pieces(number, item)]
        context = jobs.session.sparkContext
        sent = jobs.session.createDataFrame(context.parallelize(rows, len(rows)), PACKED)
        done = jobs.run(jobs.by_part(sent, len(wave)), Each(work), PACKED)
        with jobs.watched():
            found = done.collect()
        pieces: dict[int, list[bytes]] = {}
        for row in found:
            pieces.setdefault(row[0], []).append(bytes(row[1]))
        for number in range(len(wave)):
            yield pickle.loads(next(whole(pieces.pop(number))))


def _pieces(number: int, item: object) -> Iterator[tuple[int, bytes]]:
    """A pickled item, in numbered pieces that fit into a message."""
    content = pickle.dumps(item, protocol=5)
    for piece, at in enumerate(range(0, len(content), PIECE_BYTES)):
        yield number, piece.to_bytes(8, "little") + content[at : at + PIECE_BYTES]
