"""Failures on a cluster, reported as one error of Shoal.

Spark's own messages may quote rows, so none of them is passed on: a file's name and the kind of an error are.
Errors of this package cross from a task to the driver whole.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import traceback
from collections.abc import Iterator
from urllib.parse import unquote

import shoal.errors
from shoal.errors import EngineError, ShoalError, SourceError

MARK = "shoal-error:"
FILE = re.compile(
    r"(?:[Ee]ncountered error while reading file|[Cc]ould not read footer for file:?"
    r"|Error while reading file|CANNOT_READ_FILE_FOOTER\]?.*?file:?)\s+[`'\"]?(\S+?)[`'\".]*(?:\s|$)"
)
CORRUPT = "Copy or write it again; a truncated copy is the usual cause."


class TaskError(RuntimeError):
    """Carries an error of ours through Spark, which passes on nothing but text."""


def in_task(error: ShoalError) -> TaskError:
    parts = [type(error).__name__, error.code, error.message, error.remedy]
    return TaskError(MARK + base64.b64encode(json.dumps(parts).encode()).decode())


def task_failed(error: Exception) -> EngineError:
    """Where a task failed and how, without the message of the error, which may contain data."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "unknown place"
    return EngineError(
        "task-failed", f"a task of Spark failed: {type(error).__name__} at {where}.", shoal.errors.REPORT_IT
    )


@contextlib.contextmanager
def one_clear_error() -> Iterator[None]:
    """Runs Spark jobs; any failure is raised as a ShoalError without a traceback."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise translated(error) from None
    except (OSError, EOFError):  # of the sockets to Java
        raise EngineError(
            "spark-lost",
            "the connection to Spark was lost; its Java process may have run out of memory.",
            "Give it more with --spark-conf spark.driver.memory=4g, and run again.",
        ) from None


def translated(error: Exception) -> ShoalError:
    text = str(error)
    if (mark := re.search(MARK + r"([A-Za-z0-9+/=]+)", text)) is not None:
        kind, code, message, remedy = json.loads(base64.b64decode(mark[1]))
        return getattr(shoal.errors, kind, ShoalError)(code, message, remedy)
    if (file := FILE.search(text)) is not None:
        name = unquote(file[1]).removeprefix("file:")
        name = "/" + name.lstrip("/") if name.startswith("/") else name
        return SourceError("corrupt-file", f'Spark cannot read "{name}" to its end.', CORRUPT)
    kind = getattr(error, "getCondition", lambda: None)()
    if kind in ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND"):
        return SourceError(
            "missing-source", "Spark finds no such path or table.", "Check its name and the file system."
        )
    if kind is not None and "SCHEMA" in kind:
        return SourceError(
            "unreadable-source", f"Spark cannot tell the columns of the source ({kind}).", CORRUPT
        )
    return EngineError(
        "spark-failed",
        f"Spark stopped: {kind or type(error).__name__}.",
        "--spark-conf spark.log.level=ERROR shows its log, which may quote rows of the source.",
    )
