"""Comparators."""
