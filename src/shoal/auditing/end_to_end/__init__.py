"""End-to-end replay: neighbouring tables through files and the run itself, to every byte of the release.

`check(kind, method, pairs=..., seed=...)` returns what was found; an empty list is a pass.
"""

from shoal.auditing.end_to_end.rules import METHODS, Finding, Result, check, examine, examine_many

__all__ = ["METHODS", "Finding", "Result", "check", "examine", "examine_many"]
