"""What all tests may use, and how they are shared out to the processes of `make test`."""

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path

import pytest
from tests.browser import CHROMIUM, FLAGS

HERE = Path(__file__).parent
ONE_PROCESS = ("spark",)  # folders whose tests share something that a process starts once, such as a JVM

# Two processes share two cores: a second thread of the linear algebra of each would only wait, at full speed.
# Read when numpy is loaded, by the processes that tests start too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Processes that tests start may keep what Python compiles: else each of them compiles all it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


spent: dict[str, float] = {}  # CPU seconds by test, of its process and of those it waited for
begun = pytest.StashKey[float]()


def pytest_addoption(parser):
    parser.addoption("--cpu", type=int, default=0, metavar="N", help="the N tests that take most CPU seconds")


def cpu_seconds():
    return sum(os.times()[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash.setdefault(begun, cpu_seconds())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    if call.when == "teardown":
        item.user_properties.append(("cpu", cpu_seconds() - item.stash.get(begun, cpu_seconds())))
    return (yield)


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        spent[report.nodeid] = dict(report.user_properties).get("cpu", 0.0)


def pytest_terminal_summary(terminalreporter, config):
    """CPU seconds do not depend on what else runs on the machine."""
    if config.option.cpu:
        terminalreporter.section(f"{sum(spent.values()):.0f} CPU seconds in {len(spent)} tests")
        for name in sorted(spent, key=spent.__getitem__, reverse=True)[: config.option.cpu]:
            terminalreporter.write_line(f"{spent[name]:7.1f}  {name}")


def pytest_configure(config):
    if "PYTEST_XDIST_WORKER" in os.environ:
        compile_kernels_once()


def compile_kernels_once():
    """Let a worker that needs a kernel which another compiles wait, and read it from the cache then."""
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.dispatcher import Dispatcher

    compile_kernel = Dispatcher.compile
    place = Path(tempfile.gettempdir()) / f"shoal-tests-{os.environ['PYTEST_XDIST_TESTRUNUID']}"
    place.mkdir(exist_ok=True)
    held = set()

    def compile_or_wait(self, signature):
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
        with global_compiler_lock, contextlib.ExitStack() as until_done:
            if name not in held:
                lock = until_done.enter_context(open(place / name, "w"))
                fcntl.flock(lock, fcntl.LOCK_EX)
                held.add(name)
                until_done.callback(held.discard, name)
            return compile_kernel(self, signature)

    Dispatcher.compile = compile_or_wait


def pytest_xdist_make_scheduler(config, log):
    """Tests of a file run in one process (`--dist loadfile`), so that what they share is made once."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrFolder(LoadFileScheduling):
        def _split_scope(self, nodeid):
            folder = nodeid.removeprefix("tests/").partition("/")[0]
            return folder if folder in ONE_PROCESS else super()._split_scope(nodeid)

    return ByFileOrFolder(config, log)


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `shoal` with arguments, in this process: exit code, standard output, standard error."""
    from shoal.cli.main import main

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["shoal", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return run


@pytest.fixture(scope="module")
def browser():
    """Open for a file: while it is, its event loop runs in this process, and no other one can."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()
