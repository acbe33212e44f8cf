"""Counting queries on private events."""
