"""Histogram."""
