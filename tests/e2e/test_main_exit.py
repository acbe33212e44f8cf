"""Exit codes of commands that report what they found: they reach the shell."""

import json
import subprocess
import sys


def test_a_command_that_exits_with_a_code_says_so_to_the_shell(town, command):
    assert command(*town.arguments())[0] == 0
    release = town.folder / "release"
    assert command("verify", release, "--json")[0] == 0
    (release / "more.txt").write_text("not in the manifest")
    code, out, _ = command("verify", release, "--json")
    assert (code, json.loads(out)["ok"]) == (6, False)
    said = subprocess.run(
        [sys.executable, "-m", "shoal.cli.main", "verify", release, "--json"], capture_output=True
    )
    assert said.returncode == 6


def test_help_exits_with_0(command):
    assert command("--help")[0] == 0
    assert command("verify", "--help")[0] == 0
