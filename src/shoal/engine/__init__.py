"""Raw events to bounded sums over users: one compiled kernel, fed by an engine."""
