"""Speed, memory and accuracy against named baselines: `make bench-NAME`, with QUICK=1 for a small run."""

import os

# Linear algebra on one thread: with two, on a busy machine, its threads wait for each other and small
# problems take twenty times as long. Read when numpy is first imported, so it stands here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
