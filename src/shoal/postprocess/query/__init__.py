"""Post-processing of counting queries."""
