"""Other ways to hide records, for comparison in one table; one method per file."""
