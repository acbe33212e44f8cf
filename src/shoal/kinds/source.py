"""The source of a plan: opened by the engine that will read it, named by its content, checked row by row.

`Progress` receives how far a run is: the command draws bars with it, a library user may leave it out. Readers
and engines are imported when they are used, so that the page and a dry run start quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from shoal.errors import PlanError
from shoal.events.schema import EventSource, ForeignSource, SourcePlan, usual_column
from shoal.privacy.guarantee import TRIP, Unit

if TYPE_CHECKING:
    import pyarrow as pa

    from shoal.engine.engine import Engine
    from shoal.events.readers import RowReport

MOST_BROUGHT = 50_000_000  # events of a cluster that the owner's figures are made of


def opened_source(plan: SourcePlan, engine: Engine | None = None) -> EventSource:
    """Headers and footers are read, no row."""
    from shoal.engine.engine import ReadsSources
    from shoal.events.source import open_planned

    if isinstance(engine, ReadsSources):
        return engine.open_source(plan)
    return open_planned(plan)


def named_columns(source: EventSource) -> dict[str, dict[str, str]]:
    """Each role with the column that has it, and the type of that column."""
    return {role: {"name": name, "type": source.types[role]} for role, name in source.columns.items()}


def unit_of(unit: str, plan: SourcePlan, source: EventSource) -> Unit:
    """The unit of privacy of an opened source; refuses ids of trips that would be called users."""
    column = source.columns["user"]
    trip = plan.columns.get("trip") or usual_column("trip", source.names, {})
    if unit != TRIP and column == trip:
        raise PlanError(
            "unit-trip",
            f'the column "{column}" identifies trips, so it cannot stand for a {unit}: the release would '
            f"promise all events of a {unit} and cover one trip.",
            "Pass --unit trip, or --column user=NAME with the column of persons.",
        )
    return Unit(unit, column)


def any_row(
    source: EventSource,
    test: Callable[[pa.RecordBatch], bool],
    *,
    window_us: tuple[int, int],
    sites: Sequence[str] | None = None,
) -> bool:
    """Whether any batch of events in the window passes `test`; stops reading at the first one."""
    from shoal.events.readers import scan

    if isinstance(source, ForeignSource):
        return source.any_row(sites=sites, window_us=window_us, test=test)
    return any(test(batch) for batch in scan(source, sites=sites, window_us=window_us))


def events_of_some(
    source: EventSource, *, window_us: tuple[int, int], sites: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Events for the owner's figures: all; from a cluster those of a random share of users that fits here."""
    from shoal.events.readers import scan

    if not isinstance(source, ForeignSource):
        yield from scan(source, sites=sites, window_us=window_us)
        return
    rows = 0
    for batch in source.batches(sites=sites, window_us=window_us, with_flag=False, by_user=True):
        yield batch
        rows += batch.num_rows
        if rows >= MOST_BROUGHT:
            return


def contents_of(source: EventSource) -> list[str]:
    """Digests, sorted: the same bytes are the same source, wherever they lie."""
    from shoal.release.verify import sha256_file

    if isinstance(source, ForeignSource):
        return sorted(source.contents())
    return sorted(sha256_file(Path(path)) for path in source.paths)


def checked_rows(
    source: EventSource, tell: Progress, *, sites: Sequence[str] | None = None, with_flag: bool = False
) -> RowReport:
    """Every row read once; stops on bad ones, unless the source says that they are dropped."""
    report = row_report(source, tell, sites=sites, with_flag=with_flag)
    if source.on_bad_row == "stop":
        report.raise_if_bad()
    return report


def row_report(
    source: EventSource, tell: Progress, *, sites: Sequence[str] | None = None, with_flag: bool = False
) -> RowReport:
    """Every row read once; the report says which are bad."""
    from shoal.events.readers import check_rows

    tell.stage("check rows", 1.0)
    done = 0.0

    def advance(share: float) -> None:
        nonlocal done
        tell.advance(share - done)
        done = share

    return check_rows(source, sites=sites, with_flag=with_flag, progress=advance)


def stage_by_stage(tell: Progress, names: Mapping[str, str], rows: int | None) -> Callable[[str, int], None]:
    """Reports the rows of an engine's steps; each step is a stage, called by its name in `names`."""
    current = ""

    def advance(step: str, read: int) -> None:
        nonlocal current
        if step != current:
            current = step
            tell.stage(names.get(step, step), rows)
        tell.advance(read)

    return advance


class Progress(Protocol):
    def stage(self, name: str, total: float | None = None) -> None:
        """A new stage begins; `total` in whatever `advance` counts, None where it is not known."""
        ...

    def advance(self, amount: float) -> None: ...


class Silent:
    def stage(self, name: str, total: float | None = None) -> None:
        pass

    def advance(self, amount: float) -> None:
        pass
