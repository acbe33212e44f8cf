"""Our mechanisms against their claims: replay, lower bounds, planted bugs. Start at run.py."""
