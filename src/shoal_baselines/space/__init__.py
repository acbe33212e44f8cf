"""Public partitions and tables that only baselines use."""
