"""Adversaries: what they know, how they score, and the measures of their success."""
