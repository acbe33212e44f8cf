"""Synthetic trips."""
