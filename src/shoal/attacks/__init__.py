"""Adversaries: what a published file tells about one person. One attack per file; none of them is private."""
