"""Start Spark quietly, or use the session that is there; say in one line what is missing.

Nothing private goes into a configuration: the run key travels inside the serialised closure of tasks alone.
Files of a session that we start lie encrypted in a private folder, and Python on driver and workers imports
nothing from the working directory.

Failures on a cluster are reported as one error of Shoal. Spark's own messages may quote rows, so none of them
is passed on: a file's name and the kind of an error are. Errors of this package cross from a task to the
driver whole.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import socket
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import shoal.errors
from shoal.errors import EngineError, MissingExtra, PlanError, ShoalError, SourceError
from shoal.scratch import Scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OLDEST = (4, 1)  # DataFrame.repartitionById, arrow.maxBytesPerBatch
QUIET = {
    "spark.app.name": "shoal",
    "spark.log.level": "OFF",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.maxResultSize": "0",  # partial sums are small and many; our own bound is on their number
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.io.encryption.enabled": "true",  # shuffle, spill, kept and broadcast blocks on disks
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}
LOCAL = {
    "spark.master": "local[*]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:+ExitOnOutOfMemoryError",  # else it may hang
    "spark.ui.enabled": "false",  # a page of its own on this machine: only if asked for
    "spark.authenticate": "true",  # else any account of this machine may ask the driver's ports for blocks
}
_scratch: dict[str, Scratch] = {}  # by the folder it lies in; Spark keeps using one until the process ends


def open_session(conf: Mapping[str, str] | None = None) -> tuple[SparkSession, bool]:
    """The active session, or a new one, and whether it is new; what `conf` says wins over our defaults."""
    SparkSession = import_spark()
    given = dict(conf or {})
    running = running_session(SparkSession)
    if running is not None:
        _set_on(running, given)
        return running, False
    need_java()
    settings = _settings(given)
    need_master(settings.get("spark.master", ""))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    with (
        _private_files(settings) as folder,
        _start_log("spark.log.level" in given, folder) as log,
        warnings.catch_warnings(),
    ):
        for name, value in settings.items():
            builder = builder.config(name, value)
        warnings.simplefilter("ignore")  # PySpark's own, about libraries it does not use here
        try:
            return builder.getOrCreate(), True
        except Exception as error:
            raise EngineError(
                "spark-start",
                f"Spark did not start ({_last_line(log, error)}).",
                "Check --spark-conf and spark.master; --spark-conf spark.log.level=INFO shows its log.",
            ) from None


def running_session(SparkSession: Any) -> SparkSession | None:
    """The session of this thread, or of another one: what runs is never stopped by us."""
    from pyspark import SparkContext

    if (running := SparkSession.getActiveSession()) is not None:
        return running
    return SparkSession.builder.getOrCreate() if SparkContext._active_spark_context is not None else None


def _set_on(running: SparkSession, given: Mapping[str, str]) -> None:
    """A session that runs takes what can still be set."""
    for name, value in given.items():
        if running.conf.isModifiable(name):
            running.conf.set(name, value)
        elif running.sparkContext.getConf().get(name) != value:
            raise PlanError(
                "spark-conf",
                f"{name} cannot be set on a Spark session that runs already.",
                "Set it where the session is started, or stop the session first.",
            )


def _settings(given: Mapping[str, str]) -> dict[str, str]:
    """Ours below theirs; addresses of this machine alone where Spark runs on it alone."""
    master = given.get("spark.master") or os.environ.get("MASTER") or LOCAL["spark.master"]
    submitted = "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if submitted and "spark.master" not in given:  # spark-submit has said the rest
        return {**QUIET, **given}
    local = LOCAL if master.startswith("local") else {}
    return {**QUIET, **local, "spark.master": master, **given}


@contextlib.contextmanager
def _private_files(settings: dict[str, str]) -> Iterator[str]:
    """Puts the files of a session that starts in here into private folders; yields one of them.

    The Java process inherits umask and environment and keeps them, as do its Python workers; here both are
    restored. Under spark-submit the Java process runs already, with folders that were chosen there.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        yield _private("")
        return
    chosen = os.environ.get("SPARK_LOCAL_DIRS") or settings.get("spark.local.dir") or ""
    folders = [_private(parent) for parent in chosen.split(",")]
    settings["spark.local.dir"] = ",".join(folders)
    options = settings.get("spark.driver.extraJavaOptions", "")
    if "java.io.tmpdir" not in options:
        settings["spark.driver.extraJavaOptions"] = f'{options} "-Djava.io.tmpdir={folders[0]}"'.strip()
    changed = {"SPARK_LOCAL_DIRS": settings["spark.local.dir"], "PYTHONSAFEPATH": "1"}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    umask = os.umask(0o077)
    try:
        yield folders[0]
    finally:
        os.umask(umask)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _private(parent: str) -> str:
    if parent not in _scratch:
        _scratch[parent] = Scratch(parent.strip() or None)
    return str(_scratch[parent].path)


def import_spark() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyspark
            from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra(
            "missing-spark",
            "the Spark engine needs PySpark, which is not installed.",
            "Install it with `pip install 'shoal[spark]'`; it runs on Java 17 or later.",
        ) from None
    version = tuple(int(part) for part in re.findall(r"\d+", pyspark.__version__)[:2])
    if version < OLDEST:
        raise MissingExtra(
            "old-spark",
            f"the Spark engine needs PySpark {'.'.join(map(str, OLDEST))} or later; {pyspark.__version__} is "
            "installed.",
            "Upgrade it with `pip install 'shoal[spark]'`.",
        )
    return SparkSession


def need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home:
        if os.access(os.path.join(home, "bin", "java"), os.X_OK):
            return
        raise MissingExtra(
            "missing-java",
            f'JAVA_HOME is "{home}", and there is no bin/java in it.',
            "Point JAVA_HOME at a Java runtime, 17 or later, or unset it.",
        )
    if "PYSPARK_GATEWAY_PORT" in os.environ or shutil.which("java"):
        return
    raise MissingExtra(
        "missing-java",
        "Spark runs on Java, and there is none here.",
        "Install a Java runtime, 17 or later (Debian: apt-get install openjdk-17-jre-headless), or set "
        "JAVA_HOME.",
    )


def need_master(master: str) -> None:
    """Something listens at an address of a standalone master: Spark itself would try for minutes."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host, int(port)), timeout=5).close()
            return
    raise EngineError(
        "spark-master",
        f'nothing answers at the master "{master}".',
        "Check spark.master, and that the cluster runs and can be reached from here.",
    )


def parse_conf(pairs: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE pairs as a mapping.

    >>> parse_conf(("spark.master=local[2]", "spark.x=a=b"))
    {'spark.master': 'local[2]', 'spark.x': 'a=b'}
    """
    conf: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.startswith("spark."):
            raise PlanError(
                "spark-conf",
                f'--spark-conf takes KEY=VALUE with a key that begins with "spark."; got "{pair}".',
                "Pass --spark-conf spark.master=spark://HOST:7077, say.",
            )
        conf[name] = value
    return conf


@contextlib.contextmanager
def _start_log(loud: bool, folder: str) -> Iterator[str | None]:
    """What the Java process prints goes to a file that is removed, unless its log was asked for."""
    if loud:
        yield None
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    path = os.path.join(folder, "start.log")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.dup2(handle, 2)
    try:
        yield path
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(handle)
        os.unlink(path)


def _last_line(log: str | None, error: Exception) -> str:
    """The line that says why, of Java's output where there is one."""
    lines = str(error).splitlines()
    if log is not None:
        with open(log, encoding="utf-8", errors="replace") as file:
            causes = [line.strip() for line in file if "Exception" in line or "rror" in line]
            lines = causes or lines
    return (lines[0] if lines else type(error).__name__)[:200]


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
