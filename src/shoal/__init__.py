"""Publish the movement of a crowd without giving away a person."""

__version__ = "0.1.0"
