"""The same kernels and the same sums on a Spark cluster. Needs the extra `shoal[spark]` and Java."""
