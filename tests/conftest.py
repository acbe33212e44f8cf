"""What tests of every room may use."""

import os

import pytest

# Processes that tests start may keep what Python compiles: else each of them compiles all it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


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
