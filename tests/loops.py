"""One test that runs many cases and reports every one that fails."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pytest

SHOWN = 10  # failures whose traceback is printed; all are listed


class SomeFailed(AssertionError):
    """The cases that fail, by name, each with its traceback."""

    def __init__(self, failures: list[tuple[str, str]], cases: int) -> None:
        self.failures = failures
        listed = "".join(f"\n  {name}" for name, _ in failures)
        shown = "".join(f"\n--- {name}\n{text}" for name, text in failures[:SHOWN])
        super().__init__(f"{len(failures)} cases fail (the loop has {cases}):{listed}{shown}")


def for_each(names: str | tuple[str, ...], cases: Any, ids: Any = None) -> Callable:
    """Runs a test once for every case, as `pytest.mark.parametrize` does, but in one item.

    Cases that take long to list are given as a function, which is called when the test runs. Tests with
    fixtures that keep a state from case to case (`tmp_path`, `monkeypatch`) stay parametrised.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    given = cases if callable(cases) else list(cases)

    def decorate(test: Callable) -> Callable:
        parameters = inspect.signature(test).parameters
        assert parameters.keys() >= set(keys), f"{keys} are not all arguments of the test"

        @functools.wraps(test)
        def run_all(**fixtures: Any) -> None:
            failures, skips, listed = [], [], list(given()) if callable(given) else given
            assert listed, "a loop over no case tests nothing"
            labels = [None] * len(listed) if ids is None else map(ids, listed) if callable(ids) else ids
            for case, label in zip(listed, labels, strict=True):
                values = (case,) if len(keys) == 1 else tuple(case)
                name = str(label) if label is not None else ", ".join(map(_short, values))
                try:
                    test(**dict(zip(keys, values, strict=True)), **fixtures)
                except SomeFailed as several:
                    failures += [(f"{name} / {inner}", text) for inner, text in several.failures]
                except pytest.skip.Exception as skipped:
                    skips.append(skipped)
                except (Exception, pytest.fail.Exception) as failure:
                    if str(failure).startswith("Timeout"):
                        raise
                    failures.append((name, "".join(traceback.format_exception(failure))))
            if failures:
                raise SomeFailed(failures, len(listed))
            if len(skips) == len(listed):
                raise skips[0]

        kept = [parameter for name, parameter in parameters.items() if name not in keys]
        run_all.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        return run_all

    return decorate


def tiers(cases: Iterable[Any], in_every_run: Callable[[Any], bool] | tuple) -> list[Any]:
    """Cases for `pytest.mark.parametrize`: those that are not for every run are marked exhaustive."""
    chosen = in_every_run if callable(in_every_run) else in_every_run.__contains__
    return [case if chosen(case) else _exhaustive(case) for case in cases]


def _exhaustive(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.exhaustive)


def _short(value: object) -> str:
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) < 60 else f"{text[:56]} ..."
