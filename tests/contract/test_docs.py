"""Every example in README.md and docs/ is run, in order, in one empty folder per page.

    ```sh            each line is run; it must succeed. `make` lines are left to the project's own targets
    ```sh fails      each line is run; it must fail with a clear message
    ```csv NAME      (or toml, json) the block is written to the file NAME
    ```python        run as one script
Blocks of other kinds are pictures, not examples. `make test` runs the examples with small numbers, in one
process for all, `make test-all` as they are written.
"""

import doctest
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.loops import for_each

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
SHELL = re.compile(r"[|&;<>$`]")  # what only a shell understands
BLOCK = re.compile(r"^```(\w+)(?: +([^\n]*))?\n(.*?)^```$", re.M | re.S)


def blocks(page):
    return [(kind, (name or "").strip(), body) for kind, name, body in BLOCK.findall(page.read_text("utf-8"))]


def environment(folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "SHOAL_LEDGER": str(folder / "ledger.sqlite"), "COLUMNS": "100"}


@pytest.fixture
def page_folder(tmp_path, monkeypatch):
    """An empty folder with a ledger of its own."""
    monkeypatch.chdir(tmp_path)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


def lines_of(body):
    for line in (each.strip() for each in body.replace("\\\n", " ").splitlines()):
        if line and not line.startswith(("#", "make ", "git ", "cd ")):
            yield line


def no_spark():
    """Why Spark cannot run here, if it cannot."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed"
    return None if shutil.which("java") or os.environ.get("JAVA_HOME") else "there is no Java here"


SMALL = (  # what makes an example long, and the same in little
    (re.compile(r"--users \d+"), "--users 400"),
    (re.compile(r"--group \d+"), "--group 10"),
    (re.compile(r"--worlds \d+"), "--worlds 2"),
    (re.compile(r"--quick --mechanism density-best"), "--quick --runs 1000 --mechanism density-laplace"),
)


def with_small_numbers(body):
    for pattern, small in SMALL:
        body = pattern.sub(small, body)
    return body


def run_line(line, command):
    """Code, output and errors; our own command runs in this process, which saves the imports each time."""
    if line.startswith("shoal ") and not SHELL.search(line):
        return command(*shlex.split(line, comments=True)[1:])
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def run_script(body, small):
    """A script in this process, which saves the imports, or in one of its own, as a reader runs it."""
    if small:
        exec(compile(body, "<example>", "exec"), {"__name__": "__main__"})
        return
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True)
    assert done.returncode == 0, f"{body}\n{done.stderr}"


def run_page(page, folder, command, small):
    for kind, name, body in blocks(page):
        if kind == "sh":
            for line in lines_of(with_small_numbers(body) if small else body):
                code, out, err = run_line(line, command)
                assert (code != 0) == (name == "fails"), f"{line}\n{out}\n{err}"
                assert "Traceback" not in err
        elif kind in ("csv", "toml", "json") and name:
            (folder / name).write_text(body, "utf-8")
        elif kind == "python":
            run_script(body, small)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "scale.md"], ids=lambda page: page.name
)
def test_examples_run_with_small_numbers(page, page_folder, command):
    """Without the page on Spark: tests/spark runs the same command."""
    run_page(page, page_folder, command, small=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, page_folder, command):
    if page.name == "scale.md" and (reason := no_spark()):
        pytest.skip(reason)
    run_page(page, page_folder, command, small=False)


def test_links_lead_somewhere_and_the_readme_shows_the_two_commands_first():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
    first = BLOCK.search((ROOT / "README.md").read_text("utf-8"))
    assert first is not None
    assert [line.split("#")[0].strip() for line in first[3].splitlines() if line] == [
        "make demo",
        "make test",
    ]


def modules_with_doctests():
    for package in ("shoal", "shoal_baselines"):
        for path in sorted((ROOT / "src" / package).rglob("*.py")):
            if ">>> " in path.read_text("utf-8"):
                yield ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)


@for_each("module", modules_with_doctests())
def test_doctests(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0
