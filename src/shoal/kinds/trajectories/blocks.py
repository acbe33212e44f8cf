"""Records read as samples of users, who are hidden in blocks: here one after the other, or on a cluster.

A block is a release of its own; the union of blocks only adds candidates to everybody's. So where every block
passes the verifier, the whole does; where one does not, the whole is looked at, and that is the verdict.

A run of hours continues where it was killed: decisions are stored in the owner's folder, by windows.
`.trajectories-KEY/` holds one file per block of windows: whom each user carries in them, and the retained
flags of their newest epochs. It names no person but tells about people, so only its owner may read it, and it
is removed once the release is in place. Decisions are a function of samples and plan: a continued run gives
what one run would have given.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import shoal
from shoal.anonymise.kte import Kte, KteState
from shoal.attacks.tracker.evidence import Verified, verify_arrays
from shoal.engine.engine import WorksElsewhere
from shoal.errors import PlanError, SourceError
from shoal.events.readers import scan
from shoal.kinds.run import Progress, Silent, checked_rows
from shoal.kinds.trajectories.plan import TrajectoryPlan
from shoal.kinds.trajectories.prepare import TrajectorySource, open_trajectories
from shoal.release.staging import private_file, private_folder, unwritable
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples

COLUMNS = ("t0", "t1", "x0", "x1", "y0", "y1")


FAR_M = 1_000_000.0


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenSamples:
    """Samples of the window; `names` are the users' ids, user j is names[j]."""

    samples: LatticeSamples
    names: pa.Array = field(repr=False)
    lattice: Lattice
    rows: int  # in the window, before equal ones became one sample


def read_samples(
    opened: TrajectorySource, progress: Progress | None = None, rows: int | None = None
) -> OpenSamples:
    """All samples of the window: unsorted and repeated rows are welcome, users are numbered by their ids."""
    tell, lattice = progress or Silent(), opened.lattice
    tell.stage("read records", rows)
    begin = lattice.start_us
    window = (begin, begin + lattice.steps * lattice.minutes * 60_000_000)
    users: list[Any] = []
    columns: list[list[np.ndarray]] = [[], [], []]
    for batch in scan(opened.source, sites=opened.site_ids, window_us=window):
        first, second = _places(batch, opened)
        placed = (
            lattice.step_of(batch["time_us"].to_numpy()).astype(np.int32),
            *lattice.cell_of(first, second),
        )
        users.append(batch["user"])
        for column, values in zip(columns, placed, strict=True):
            column.append(values)
        tell.advance(batch.num_rows)
    if not users:
        raise SourceError(
            "nobody",
            "no record lies in the window: there is nobody to hide.",
            "Check --start, --end and --time-zone.",
        )
    names, user = _numbered(users)
    users.clear()
    t, x, y = (np.concatenate(column) for column in columns)
    _check_origin(x, y, lattice)
    samples = LatticeSamples.of(user, t, x, y, users=len(names), steps=lattice.steps)
    return OpenSamples(samples=samples, names=names, lattice=lattice, rows=len(t))


def open_samples(
    plan: TrajectoryPlan, progress: Progress | None = None
) -> tuple[LatticeSamples, pa.Array, Lattice]:
    """Checked and read in one call: samples, the users' ids, the lattice."""
    opened = open_trajectories(plan)
    report = checked_rows(opened.source, progress or Silent(), sites=opened.site_ids)
    read = read_samples(opened, progress, report.rows)
    return read.samples, read.names, read.lattice


def _check_origin(x: np.ndarray, y: np.ndarray, lattice: Lattice) -> None:
    """Most samples lie north-east of the origin and not a continent away, or something is mixed up."""
    far = FAR_M / lattice.metres
    if not all(0 <= float(np.median(column)) < far for column in (x, y)):
        raise PlanError(
            "lattice-origin",
            "most samples lie south or west of the origin, or more than 1,000 km from it.",
            "Check --origin LON,LAT, a place south-west of the area, and that longitude and latitude are not "
            "swapped in the records.",
        )


def _places(batch: pa.RecordBatch, opened: TrajectorySource) -> tuple[np.ndarray, np.ndarray]:
    if opened.sites is None:
        return batch["x"].to_numpy(), batch["y"].to_numpy()
    site = batch["site"].to_numpy()
    return opened.sites.x[site], opened.sites.y[site]


def _numbered(users: list[Any]) -> tuple[pa.Array, np.ndarray]:
    """Distinct ids in their own order, and the number of each row's."""
    coded = pa.chunked_array(users).combine_chunks()
    coded = (coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded).dictionary_encode()
    order = pc.call_function("array_sort_indices", [coded.dictionary]).to_numpy()
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return coded.dictionary.take(pa.array(order)), rank[coded.indices.to_numpy(zero_copy_only=False)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Made:
    """Boxes of all records, and how often two people had to hide each other again."""

    boxes: Boxes = field(repr=False)
    pairs_again: int


def anonymise(
    anonymiser: Kte,
    samples: LatticeSamples,
    block_users: int | None = None,
    keeping: Path | None = None,
    progress: Progress | None = None,
    engine: object = None,
) -> Made:
    """Records of all users. Blocks of users are releases of their own: their union only adds candidates."""
    tell = progress or Silent()
    blocks = blocks_of(samples.users, block_users)
    if isinstance(engine, WorksElsewhere):
        blocks_made = list(_elsewhere(engine, anonymiser, samples, blocks, keeping, tell))
    else:
        blocks_made = [_here(anonymiser, samples, blocks, at, keeping, tell) for at in range(len(blocks))]
    again = sum(reused for _, reused in blocks_made)
    if len(blocks_made) == 1:
        return Made(boxes=blocks_made[0][0], pairs_again=again)
    record = np.concatenate(
        [users[part.record] for users, (part, _) in zip(blocks, blocks_made, strict=True)]
    )
    columns = [np.concatenate([getattr(part, name) for part, _ in blocks_made]) for name in COLUMNS]
    return Made(boxes=Boxes.of(record, *columns, records=samples.users), pairs_again=again)


def blocks_of(users: int, block_users: int | None) -> list[np.ndarray]:
    """Fixed blocks, none smaller than block_users unless all users are fewer; every so-manieth user, so that
    who hides together says nothing of ids that follow each other."""
    count = max(1, users // (block_users or max(users, 1)))
    return [np.arange(first, users, count, dtype=np.int32) for first in range(count)]


def verify_blocks(
    engine: WorksElsewhere,
    samples: Sequence[np.ndarray],
    boxes: Sequence[np.ndarray],
    blocks: Sequence[np.ndarray],
    *,
    steps: int,
    k: int,
    tau: int,
    progress: Progress,
) -> Iterator[Verified]:
    """The tracker's verdict on each block, of samples (user, t, x, y) and boxes (record, t0, ...)."""
    progress.stage("check blocks", len(blocks))
    users = sum(len(block) for block in blocks)
    items = ((of_block(samples, block, users), of_block(boxes, block, users), len(block)) for block in blocks)
    for verdict in engine.each(partial(_verified, steps=steps, k=k, tau=tau), items, len(blocks)):
        progress.advance(1)
        yield verdict


def of_block(columns: Sequence[np.ndarray], block: np.ndarray, users: int) -> list[np.ndarray]:
    """Rows of the block's users, whose numbers (the first column) are places in the block."""
    rank = np.full(users, -1, np.int32)
    rank[block] = np.arange(len(block), dtype=np.int32)
    number = rank[columns[0]]
    rows = number >= 0
    return [number[rows], *(column[rows] for column in columns[1:])]


def _verified(
    item: tuple[list[np.ndarray], list[np.ndarray], int], *, steps: int, k: int, tau: int
) -> Verified:
    samples, boxes, users = item
    return verify_arrays(*samples, *boxes, users=users, steps=steps, k=k, tau=tau)


def _here(
    anonymiser: Kte,
    samples: LatticeSamples,
    blocks: Sequence[np.ndarray],
    at: int,
    keeping: Path | None,
    tell: Progress,
) -> tuple[Boxes, int]:
    """One block in this process, window by window."""
    block = samples if len(blocks) == 1 else of_users(samples, blocks[at])
    which = "" if len(blocks) == 1 else f" {at + 1}/{len(blocks)}"
    state, done = None, 0
    for state in decide(anonymiser, block, keeping):
        if done == 0:
            tell.stage(f"choose carriers{which}", state.windows)
        tell.advance(state.done - done)
        done = state.done
    assert state is not None  # there is at least one window
    tell.stage(f"merge records{which}", state.samples.epochs)
    return anonymiser.merge(state, lambda name, at, of: tell.advance(1)), state.reused


def _elsewhere(
    engine: WorksElsewhere,
    anonymiser: Kte,
    samples: LatticeSamples,
    blocks: Sequence[np.ndarray],
    keeping: Path | None,
    tell: Progress,
) -> Iterator[tuple[Boxes, int]]:
    """Blocks as tasks; those that an earlier run has kept are not done again."""
    tell.stage("hide blocks", len(blocks))
    parts = [samples] if len(blocks) == 1 else [of_users(samples, users) for users in blocks]
    paths = [None if keeping is None else kept_block(keeping, anonymiser, part) for part in parts]
    stored = [
        None if path is None else _load_block(path, part.users)
        for path, part in zip(paths, parts, strict=True)
    ]
    missing = [part for part, block in zip(parts, stored, strict=True) if block is None]
    done: Iterable[tuple[Boxes, int]] = engine.each(partial(_hide, anonymiser), iter(missing), len(missing))
    fresh = iter(done)
    for path, block in zip(paths, stored, strict=True):
        if block is None:
            block = next(fresh)
            if path is not None:
                _save_block(path, *block)
        tell.advance(1)
        yield block


def _hide(anonymiser: Kte, samples: LatticeSamples) -> tuple[Boxes, int]:
    """One block in a task."""
    state = list(decide(anonymiser, samples, None))[-1]  # one state, after its last window
    return anonymiser.merge(state, _silent), state.reused


def _silent(name: str, at: int, of: int) -> None:
    pass


def of_users(samples: LatticeSamples, users: np.ndarray) -> LatticeSamples:
    """Their samples, numbered by place in `users`."""
    user, t, x, y = of_block(samples.columns, users, samples.users)
    return LatticeSamples(users=len(users), steps=samples.steps, user=user, t=t, x=x, y=y)


def _save_block(path: Path, boxes: Boxes, reused: int) -> None:
    """Write a file atomically, readable by its owner alone."""
    open_kept(path.parent)
    columns: dict[str, Any] = {name: getattr(boxes, name) for name in ("record", *COLUMNS)}
    _save(path, records=boxes.records, reused=reused, **columns)


def _load_block(path: Path, users: int) -> tuple[Boxes, int] | None:
    stored = _load(path, ("records", "reused", "record", *COLUMNS))
    if stored is None or int(stored["records"]) != users:
        return None
    columns = [stored[name] for name in ("record", *COLUMNS)]
    return Boxes.of(*columns, records=users), int(stored["reused"])


def _save(path: Path, **arrays: Any) -> None:
    try:
        with private_file(path) as file:
            np.savez(file, **arrays)
    except OSError as error:
        raise unwritable(path.parent, error) from error


def _load(path: Path, names: Iterable[str]) -> dict[str, np.ndarray] | None:
    """Arrays of a file; None where it is missing, damaged or another format. Every member has a checksum."""
    try:
        with np.load(path) as file:
            return {name: file[name] for name in names}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None


WINDOWS_PER_FILE = 24
FORMAT = 1  # of the files, and of the decisions: another one does not go on from these


def decide(
    anonymiser: Kte, samples: LatticeSamples, folder: Path | None, per_file: int = WINDOWS_PER_FILE
) -> Iterator[KteState]:
    """Yields the state after every window, from the first that is not yet kept in `folder`."""
    state = anonymiser.begin(samples)
    if folder is not None:
        folder = folder / _name(anonymiser, samples)
        open_kept(folder)
        _load_windows(state, folder, anonymiser.k)
        if state.done:
            yield state
    stored = state.done
    for window in anonymiser.windows(state):
        if folder is not None and ((window + 1) % per_file == 0 or state.done == state.windows):
            _save_windows(state, folder, stored, anonymiser.k)
            stored = state.done
        yield state


def kept_folder(owner: Path, key: str) -> Path:
    """Folder in which the run of that key stores its decisions."""
    return owner / f".trajectories-{key[:12]}"


def kept_block(folder: Path, anonymiser: Kte, samples: LatticeSamples) -> Path:
    """Where the boxes of a block are kept, once it is done."""
    return folder / _name(anonymiser, samples) / "block.npz"


def forget(folder: Path) -> None:
    """Remove the stored decisions once the release is in place."""
    shutil.rmtree(folder, ignore_errors=True)


def _name(anonymiser: Kte, samples: LatticeSamples) -> str:
    """Name of this input and plan; a run with any other may not continue it."""
    of = (FORMAT, shoal.__version__, anonymiser, samples.users, samples.steps)
    digest = hashlib.sha256(repr(of).encode())
    for column in samples.columns:
        digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()[:16]


def open_kept(folder: Path) -> None:
    for each in (folder.parent, folder):
        private_folder(each)


def _save_windows(state: KteState, folder: Path, stored: int, k: int) -> None:
    """Windows kept .. done - 1, whole or not at all."""
    epochs = slice(0 if stored == 0 else stored + state.n, state.done + state.n)
    _save(
        folder / f"{state.done:08d}.npz",
        first=stored,
        reused=state.reused,
        carries=state.carries[:, stored * (k - 1) : state.done * (k - 1)],
        retained=state.retained[epochs],
    )


def _load_windows(state: KteState, folder: Path, k: int) -> None:
    """Files in order while each begins where the last ended; from a damaged one on, all is done again."""
    for path in sorted(folder.glob("[0-9]*.npz")):
        stored = _load(path, ("first", "reused", "carries", "retained"))
        if stored is None or not path.stem.isdecimal():
            break
        first, done = int(stored["first"]), int(path.stem)
        carries, retained = stored["carries"], stored["retained"]
        users, epochs = state.samples.users, slice(0 if first == 0 else first + state.n, done + state.n)
        fits = first == state.done and first < done <= state.windows
        fits = fits and carries.shape == (users, (done - first) * (k - 1))
        if not fits or retained.shape != (epochs.stop - epochs.start, users):
            break
        state.carries[:, first * (k - 1) : done * (k - 1)] = carries
        state.retained[epochs] = retained
        state.done, state.reused = done, int(stored["reused"])
