"""Bugs planted in a copy of the package by module and text, and the checks that must catch each of them.

    [[bug]]                                           # a file of these, for: shoal audit --planted FILE
    name = "noise of half the scale"
    module = "shoal.privacy.noise"
    old = "return noise.laplace(name, exact, self.scale)"
    new = "return noise.laplace(name, exact, self.scale / 2)"

`old` must occur exactly once in the module. `caught_by` lists the checks that must catch the bug (see
patched.py); without it all checks run until one does. A bug of more than one change has the others as
[[bug.also]], each with a module, old and new. bugs.toml holds the bugs that an outside review planted.
"""

from shoal.auditing.planted.patched import PLANTED, Caught, PatchedBug, plant, read_bugs

__all__ = ["PLANTED", "Caught", "PatchedBug", "plant", "read_bugs"]
