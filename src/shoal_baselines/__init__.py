"""Shoal_baselines."""
