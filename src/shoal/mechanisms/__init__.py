"""Exact to noisy: one algorithm per file, all listed in registry.py."""
