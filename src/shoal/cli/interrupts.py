"""Ctrl-C that is not lost: an interrupt that lands inside a library's callback is swallowed there.

The handler remembers it, and progress asks at every step whether it was pressed.
"""

from __future__ import annotations

import signal
import threading

_pressed = threading.Event()


def listen() -> None:
    """Remember interrupts from here on; they are raised as always too."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _press)


def pressed() -> bool:
    return _pressed.is_set()


def check() -> None:
    """Stop here if an interrupt came before and was swallowed."""
    if _pressed.is_set() and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _press(*_: object) -> None:
    _pressed.set()
    raise KeyboardInterrupt
