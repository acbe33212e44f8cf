"""Noisy to noisy: free of privacy cost, because it cannot see data."""
