"""Signals that stop the command: Ctrl-C, SIGTERM, a closed terminal.

All are raised as an interrupt, so that temporary folders are removed and the message says what is spent.
One that lands inside a library's callback is swallowed there: the handler remembers it, and progress asks at
every step whether one came.
"""

from __future__ import annotations

import signal
import threading

_pressed = threading.Event()
_code = 128 + signal.SIGINT


def listen() -> None:
    """Remember interrupts from here on; they are raised as always too."""
    if threading.current_thread() is not threading.main_thread():
        return
    signal.signal(signal.SIGINT, _press)
    signal.signal(signal.SIGTERM, _press)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, _press)


def pressed() -> bool:
    return _pressed.is_set()


def exit_code() -> int:
    """As a shell reports the signal that came."""
    return _code


def check() -> None:
    """Stop here if an interrupt came before and was swallowed."""
    if _pressed.is_set() and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _press(number: int, *_: object) -> None:
    global _code
    _code = 128 + number
    _pressed.set()
    raise KeyboardInterrupt
