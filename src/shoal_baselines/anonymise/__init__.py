"""Anonymise."""
