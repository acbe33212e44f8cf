"""Mechanisms that answer counting queries."""
