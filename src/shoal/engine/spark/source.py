"""A source that Spark reads: Parquet or CSV on any file system Spark knows, or a table of its catalogue.

A plain path is a file, folder or glob that this machine sees too: its headers are checked here. What has a
scheme (`hdfs://`, `s3a://`, `file:///`) is left to Spark; `table:NAME` is a table or view.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from shoal.engine.engine import ROWS_PER_CALL
from shoal.engine.spark.jobs import PACKED, unpack
from shoal.engine.spark.session import one_clear_error
from shoal.engine.spark.tasks import RELATION, REPORT, RowReader, bring_users, check, find, read
from shoal.errors import SourceError
from shoal.events.files import (
    CSV_ENDINGS,
    Header,
    check_delimiter,
    check_names,
    different_schemas,
    find_files,
    header_line,
    read_header,
)
from shoal.events.normalise import NAIVE, OFFSET, time_roles
from shoal.events.readers import CODE_NAMES, FoundRows, RowReport
from shoal.events.schema import (
    TABLE,
    ZONED_TYPES,
    EventSource,
    ForeignSource,
    Format,
    SourcePlan,
    Window,
    elsewhere,
)
from shoal.events.source import describe_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from shoal.engine.spark.jobs import Jobs

ROWS_UNKNOWN = 20_000_000  # where they were not counted
TYPES = {
    "bigint": "BIGINT",
    "int": "INTEGER",
    "smallint": "SMALLINT",
    "tinyint": "TINYINT",
    "string": "VARCHAR",
    "double": "DOUBLE",
    "float": "FLOAT",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkSource(ForeignSource):
    """Rows stay where they are; this process sees names, types, counts and what it asks to be brought."""

    jobs: Jobs = field(repr=False)
    kind: str  # parquet, csv or table
    local: bool  # plain paths: this machine sees the files too
    known: dict[str, int] = field(default_factory=dict, repr=False)  # rows, once they were checked

    def plain(self) -> EventSource:
        """The same source as a task knows it: rows of a relation, nothing of Spark."""
        named = {name: getattr(self, name) for name in EventSource.__dataclass_fields__}
        return EventSource(**{**named, "paths": (), "relation": RELATION})

    def reader(self, sites: Sequence[str] | None, window_us: Window | None, with_flag: bool) -> RowReader:
        listed = None if sites is None else tuple(sites)
        return RowReader(source=self.plain(), sites=listed, window_us=window_us, with_flag=with_flag)

    def frame(self, *, with_flag: bool = False, with_file: bool = False) -> DataFrame:
        """Columns by role and whether text is not UTF-8, or lines of CSV; and the file if asked."""
        from pyspark.sql import functions as F

        rows = self._load()
        if self.kind == "csv":  # tasks take lines apart: see events/lines.py
            picked = [F.col("value").alias("line")]
            return rows.select(*picked, *([F.col("_metadata.file_name").alias("file")] if with_file else []))
        columns = {
            role: F.col(backticked(name))
            for role, name in self.columns.items()
            if role != "flag" or with_flag
        }
        broken = F.lit(False)
        for role, column in columns.items():
            if self.types[role] == "VARCHAR":
                broken = broken | F.coalesce(~F.is_valid_utf8(column), F.lit(False))
        picked = [column.alias(f"r_{role}") for role, column in columns.items()]
        picked.append(broken.alias("unparsable"))
        if with_file:
            name = F.lit(self.paths[0]) if self.kind == "table" else F.col("_metadata.file_name")
            picked.append(name.alias("file"))
        return rows.select(*picked)

    def batches(
        self, *, sites: Sequence[str] | None, window_us: Window | None, with_flag: bool, by_user: bool
    ) -> Iterator[pa.RecordBatch]:
        """Partition after partition, as Spark has read them; `by_user`: each user's rows together."""
        reader, jobs = self.reader(sites, window_us, with_flag), self.jobs
        frame = self.frame(with_flag=with_flag)
        # This process takes a partition at a time: they must be small. What is in one follows from the users
        # alone, so that a task that runs again gives the same rows to the same partitions.
        parts = max(1, -(-self.known.get("rows", ROWS_UNKNOWN) // ROWS_PER_CALL))
        packed = jobs.by_part(jobs.run(frame, partial(read, reader, parts, None, False), PACKED), parts)
        if by_user:
            packed = jobs.run(packed, bring_users, PACKED)
        with one_clear_error():
            for row in packed.toLocalIterator():
                piece = pa.record_batch({"part": [0], "payload": pa.array([bytes(row[1])], pa.binary())})
                yield from unpack([piece], set())

    def row_report(
        self, *, sites: Sequence[str] | None, with_flag: bool, progress: Callable[[float], None] | None
    ) -> RowReport:
        """One pass; a second one to name the files where rows are bad."""
        reader = self.reader(sites, None, with_flag)
        counted = self._report(reader, with_flag, with_file=False, progress=progress)
        reasons = {name: counted.counts[name] for name in CODE_NAMES[1:] if counted.counts[name]}
        examples: dict[str, tuple[tuple[str, int], ...]] = {}
        if reasons:
            named = self._report(reader, with_flag, with_file=True, progress=None).by_file
            for reason in reasons:
                examples[reason] = tuple((file, 0) for file in sorted(named) if named[file][reason])[:5]
        self.known["rows"] = counted.counts.total()
        return RowReport(
            rows=counted.counts.total(),
            by_reason=reasons,
            examples=examples,
            offset_times=counted.styles[OFFSET],
            naive_times=counted.styles[NAIVE],
        )

    def any_row(
        self, *, sites: Sequence[str] | None, window_us: Window, test: Callable[[pa.RecordBatch], bool]
    ) -> bool:
        """Looks at a partition, then at more and more of them."""
        work = partial(find, self.reader(sites, window_us, with_flag=False), test)
        with one_clear_error():
            return bool(self.jobs.run(self.frame(), work, PACKED).take(1))

    def _report(
        self, reader: RowReader, with_flag: bool, with_file: bool, progress: Callable[[float], None] | None
    ) -> FoundRows:
        frame = self.frame(with_flag=with_flag, with_file=with_file)
        counted = FoundRows()
        with self.jobs.watched(progress):
            for row in self.jobs.run(frame, partial(check, reader), REPORT).collect():
                counted.add(row[0], row[1], row[2], row[3], row[4], None)
        return counted

    def contents(self) -> list[str]:
        """Digests of files that are here; else one of all rows, whatever their order."""
        if self.local:
            return [_sha256(path) for path in self.paths]
        from pyspark.sql import functions as F

        names = ["value"] if self.kind == "csv" else sorted(set(self.columns.values()))
        columns = [F.col(backticked(name)) for name in names]
        sums = [
            F.sum(F.xxhash64(F.lit(salt), *columns).cast("decimal(38,0)")).cast("string") for salt in (1, 2)
        ]
        with one_clear_error():
            row = self._load().select(F.count(F.lit(1)).alias("rows"), *sums).collect()[0]
        named = repr([str(value) for value in row])
        return [hashlib.sha256(named.encode()).hexdigest()]

    def _load(self) -> DataFrame:
        reader = self.jobs.session.read
        with one_clear_error():
            if self.kind == "table":
                return reader.table(self.paths[0])
            if self.kind == "parquet":
                return reader.parquet(*self.paths)
            return reader.text(list(self.paths), lineSep="\n")


def open_spark_source(jobs: Jobs, plan: SourcePlan) -> SparkSource:
    """Names and types of columns; no row of Parquet is read, of CSV the first line."""
    paths, kind, local = _kind(plan.paths)
    file_format: Format = "csv" if kind == "csv" else "parquet"
    delimiter, checked = plan.delimiter, None
    if local:
        checked = read_header(paths, file_format, delimiter)  # says which file is damaged or different
        delimiter = checked.delimiter
        _check_names(paths)
    header = _header(jobs, paths, kind, delimiter, local)
    described = describe_source(plan, paths, file_format, header)
    if checked is not None:
        _check_clocks(described, checked)
    named = {name: getattr(described, name) for name in EventSource.__dataclass_fields__}
    return SparkSource(**named, jobs=jobs, kind=kind, local=local)


def _check_names(paths: Sequence[str]) -> None:
    """Refuses names for which Spark silently leaves out files or reads others."""
    for path in paths:
        if set(path) & set("*?[]{}"):
            raise SourceError(
                "file-name",
                f'the name "{path}" has * ? [ ] {{ or }} in it, which are patterns to Spark.',
                "Rename the file or its folder.",
            )
        if os.path.basename(path).startswith(("_", ".")):
            raise SourceError(
                "hidden-file",
                f'Spark does not read files whose names begin with "_" or ".", as "{path}".',
                "Rename it, or leave it out.",
            )


def _check_clocks(source: EventSource, header: Header) -> None:
    """Old Parquet times (INT96) are instants to Spark and times of an unnamed clock to DuckDB."""
    for role in time_roles(source):
        name = source.columns[role]
        if (source.types[role] in ZONED_TYPES) != (header.types.get(name) in ZONED_TYPES):
            raise SourceError(
                "int96-time",
                f'column "{name}" holds times of the old kind INT96, which do not say whether they are UTC.',
                "Write them again as timestamps with or without a zone, or leave out --engine spark.",
            )


def _kind(paths: Sequence[str]) -> tuple[tuple[str, ...], str, bool]:
    """The paths, what Spark shall read them as, and whether they are plain."""
    tables = [path for path in paths if path.startswith(TABLE)]
    if tables:
        if len(paths) != 1:
            raise SourceError("mixed-sources", "a table is a source of its own.", "Name one table alone.")
        return (tables[0].removeprefix(TABLE),), "table", False
    remote = [path for path in paths if elsewhere(path)]
    if not remote:
        files, kind = find_files(list(paths))
        return tuple(os.path.abspath(file) for file in files), kind, True  # Java has a folder of its own
    if len(remote) != len(paths):
        raise SourceError(
            "mixed-sources",
            "some paths are on this machine and some are not.",
            "Name all of them in one way; file:///path is a path that Spark looks up.",
        )
    kinds = {"csv" if path.lower().rstrip("*/").endswith(CSV_ENDINGS) else "parquet" for path in remote}
    if len(kinds) != 1:
        raise SourceError(
            "mixed-formats",
            "a source is either CSV or Parquet; these files are both.",
            "Name the files of one format only.",
        )
    return tuple(paths), kinds.pop(), False


def _header(jobs: Jobs, paths: Sequence[str], kind: str, delimiter: str | None, local: bool) -> Header:
    from pyspark.sql import functions as F

    reader = jobs.session.read
    with one_clear_error():
        if kind == "csv":
            check_delimiter(delimiter)
            files = paths[:1] if local else [unquote(each) for each in reader.text(list(paths)).inputFiles()]
            headers = []
            for path in files or paths[:1]:
                first = reader.text(path, lineSep="\n").select(F.col("value").cast("binary")).first()
                line = (bytes(first[0]) if first else b"").removesuffix(b"\r").removeprefix(b"\xef\xbb\xbf")
                headers.append(header_line(path, line, delimiter))
                if headers[-1] != headers[0]:
                    raise different_schemas(files[0], headers[0], path, headers[-1])
            return headers[0]
        schema = reader.table(paths[0]).schema if kind == "table" else reader.parquet(*paths).schema
    types = {each.name: duckdb_type(each.dataType.simpleString()) for each in schema}
    check_names(paths[0], list(types))
    return Header(tuple(types), types)


def duckdb_type(name: str) -> str:
    """Spark's name of a type as DuckDB calls it.

    >>> duckdb_type("array<double>"), duckdb_type("decimal(20,0)"), duckdb_type("varchar(9)")
    ('DOUBLE[]', 'DECIMAL(20,0)', 'VARCHAR')
    """
    if name.startswith("array<"):
        return duckdb_type(name[6:-1]) + "[]"
    if name.startswith(("varchar", "char")):
        return "VARCHAR"
    return TYPES.get(name, name.upper())


def backticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
