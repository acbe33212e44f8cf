"""Speed, memory and accuracy against named baselines: `make bench-NAME`, with QUICK=1 for a small run."""
