"""Distinct trips in any rectangle."""
