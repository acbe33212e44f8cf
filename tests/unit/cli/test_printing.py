"""An interrupt that a library swallowed stops the command at its next step."""

import signal
import subprocess
import sys

CODE = """
import os, signal
from shoal.cli.printing import Bars, listen_for_signals
listen_for_signals()
with Bars(quiet=True) as bars:
    bars.stage("first", 2)
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**6):
            pass
    except KeyboardInterrupt:
        print("swallowed", flush=True)
    {step}
    print("went on")
"""


def run(step):
    return subprocess.run([sys.executable, "-c", CODE.format(step=step)], capture_output=True, text=True)


def test_the_next_stage_or_step_stops_and_without_one_nothing_is_asked():
    for step in ('bars.stage("second")', "bars.advance(1)"):
        done = run(step)
        assert done.stdout == "swallowed\n"
        assert done.returncode in (-signal.SIGINT, 130, 1)
        assert "KeyboardInterrupt" in done.stderr
    assert run("pass").stdout == "swallowed\nwent on\n"
