"""Labels under which the pages of a release show the parameters that its manifest lists by key."""

from __future__ import annotations

LABELS = {
    "assumed": "Assumed about the profiles",
    "block_users": "People per block",
    "boxes_count_longer_by_epochs": "Added to the length of a box for its cost (epochs)",
    "cap": "Visits of a user, at most",
    "cells": "Cells",
    "cells_per_unit_cap": "Cells of a user that are read, at most",
    "cost_of_a_box": "Cost of a box",
    "count": "Synthetic trips or people to write",
    "decimals": "Decimals published",
    "ell": "Visits kept per user, at most (ell)",
    "epoch_minutes": "Epoch (minutes)",
    "events_per_unit_cap": "Events of a user that are read, at most",
    "full_length": "Only records of full length",
    "given": "Given rectangles",
    "grid": "Grid",
    "jump_m": "Jump that cuts a trip (metres)",
    "k": "Records that fit an observation (k)",
    "kind": "Kind of release",
    "lattice": "Lattice",
    "least_cluster_visits": "Fewest visits in a cluster of zones",
    "mean_cells": "Cells per trip, expected",
    "mechanism": "Mechanism",
    "method": "Method",
    "nights": "Low counts at night assumed",
    "noise_scale_people": "Noise scale (people)",
    "pairs_forgotten_after_days": "Earlier pairs are forgotten after (days)",
    "points_outside_the_box": "Points outside the box",
    "points_per_unit_cap": "Points of a user that are read, at most",
    "price_of_suppression": "Price of suppression",
    "queries": "Queries",
    "reading": "Reading of the files",
    "records": "Records",
    "shares_rho": "Shares of rho",
    "sites": "Sites",
    "slot_minutes": "Length of a slot (minutes)",
    "slots": "Slots",
    "snapping": "Snapping to the lattice",
    "step_s": "Step of time (seconds)",
    "synthetic": "Synthetic",
    "tau_minutes": "Tau (minutes)",
    "threshold_visits": "Threshold of an update (visits)",
    "time_zone": "Time zone",
    "trip_rule": "Trips",
    "trips_cap": "Trips of a user, at most",
    "trips_declared": "Declared number of trips",
    "trips_per_unit": "Trips kept of a user",
    "updates": "Updates of the model, at most",
    "users": "Users",
    "users_declared": "Declared number of users",
    "window": "Window",
    "zones": "Zones",
}
INNER = {  # in a table of parameters
    "sizes": "users by number of visits",
    "answer_scale": "noise scale of the answers",
    "area": "by area",
    "by_distance": "moves by distance",
    "coordinate_scale": "factor from stored coordinates to degrees",
    "cost_scale": "noise scale of the costs",
    "count": "number",
    "density_scale": "noise scale of the densities",
    "end": "end (not included)",
    "epsilon_boxes": "epsilon of the rectangles",
    "expected_cells": "expected cells per trip",
    "gap_minutes": "gap that ends a trip (minutes)",
    "metres_per_unit": "metres per unit of a coordinate",
    "min_points": "fewest points",
    "noise_users": "noise scale (users)",
    "on_bad_row": "treatment of bad rows",
    "parts": "parts in use",
    "planar": "coordinates in metres",
    "point_seconds": "seconds between points",
    "select_scale": "noise scale of the selection",
    "sha256": "SHA-256",
    "shares": "shares of the budget",
    "space_power": "power of space",
    "stay_m": "stay within (metres)",
    "stay_minutes": "stay of at least (minutes)",
    "time_power": "power of time",
    "trips_declared": "declared number of trips",
    "trips_per_unit": "trips kept of a user",
    "users_declared": "declared number of users",
}


def label_of(path: str) -> str:
    """The label of a parameter; in a table of parameters, that of the table and the name inside.

    >>> label_of("jump_m"), label_of("mechanism.parts.stay_places")
    ('Jump that cuts a trip (metres)', 'Mechanism: parts in use: stay places')
    """
    first, *inner = path.split(".")
    names = [INNER.get(key, key.replace("_", " ")) for key in inner]
    return ": ".join([LABELS.get(first, first.replace("_", " ").capitalize()), *names])
