"""Public things: sites, zones, grids, area weights, the clock of slots. Nothing here reads events."""
