"""Readers of geometry files: one format per file, each from bytes or a path to `FileRows`."""
