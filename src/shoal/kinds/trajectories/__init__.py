"""k-anonymous trajectories: records generalised until k of them fit every observation."""
