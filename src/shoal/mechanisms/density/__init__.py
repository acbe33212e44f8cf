"""Mechanisms that release people per zone and slot."""
