"""The stage is a type: raw events -> bounded visits -> exact counts -> noisy counts -> release.

One file per stage. `tests/contract/test_imports.py` says which package may import which stage.
"""
