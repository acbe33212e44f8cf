"""Mechanisms that release histograms of trips."""
