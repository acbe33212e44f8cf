"""Which engine makes the sums: this machine with DuckDB, or Spark. Shared by all commands that run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from shoal.errors import PlanError

if TYPE_CHECKING:
    from shoal.engine.spark.engine import SparkEngine


def _not_negative(context: click.Context, parameter: click.Parameter, value: int) -> int:
    if value < 0:
        raise click.BadParameter("0 (one per core) or more.")
    return value


THREADS = click.option(
    "--threads",
    type=int,
    default=0,
    callback=_not_negative,
    help="Threads of the engine.  [default: one per core]",
)
OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(["duckdb", "spark"]),
        default="duckdb",
        help="Where sums are made: this machine, or Spark (needs shoal[spark]).  [default: duckdb]",
    ),
    click.option(
        "--spark-conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="Setting of Spark, as spark.master=spark://HOST:7077; repeatable.",
    ),
    click.option("--partitions", type=int, help="Parts of the users on Spark.  [default: by cores and rows]"),
)


@dataclass(frozen=True, kw_only=True)
class EngineChoice:
    """What the flags say about the engine."""

    name: str
    conf: tuple[str, ...]
    partitions: int | None

    @contextmanager
    def opened(self) -> Iterator[SparkEngine | None]:
        """Spark, started and stopped; None is the engine of this machine, which needs no start."""
        if self.name != "spark":
            if self.conf or self.partitions is not None:
                raise PlanError(
                    "spark-options",
                    "--spark-conf and --partitions are for the Spark engine.",
                    "Pass --engine spark, or leave them out.",
                )
            yield None
            return
        from shoal.engine.spark.session import import_spark, need_java, parse_conf

        conf = parse_conf(self.conf)
        import_spark()
        need_java()
        from shoal.engine.spark.engine import SparkEngine

        if sys.stderr.isatty():
            click.echo("starting Spark", err=True)
        with SparkEngine(conf, partitions=self.partitions) as engine:
            yield engine


def engine_options(command: Callable) -> Callable:
    """Decorator: --engine and what belongs to it reach the command as one `choice: EngineChoice`."""

    @wraps(command)
    def wrapper(*args: Any, engine: str, spark_conf: tuple[str, ...], partitions: int | None, **kwargs: Any):
        choice = EngineChoice(name=engine, conf=spark_conf, partitions=partitions)
        return command(*args, choice=choice, **kwargs)

    for option in reversed(OPTIONS):
        wrapper = option(wrapper)
    return wrapper
