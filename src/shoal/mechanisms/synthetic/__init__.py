"""Mechanisms that release models from which synthetic trips and events are drawn."""
