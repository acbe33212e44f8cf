"""The methods of synthetic trips and of synthetic events by name, and what each of their spends pays for."""

from __future__ import annotations

from shoal.mechanisms import methods
from shoal.mechanisms.method import Methods

COMMUTES = "commutes"
METHODS = Methods("synthetic", methods.SYNTHETIC, "methods:METHODS")
EVENTS = {name: each for name, each in methods.SYNTHETIC.items() if each.takes == COMMUTES}
TRIPS = Methods(
    "synthetic",
    {name: each for name, each in methods.SYNTHETIC.items() if each.takes != COMMUTES},
    "methods:METHODS",
)
DEFAULT_METHOD = "bridges"
PAYS_FOR = {
    "trips": "the number of trips",
    "tables": "moves, starts and ends, flows, lengths, stays, turns and times",
    "hours": "hours of the starts of trips",
    "starts": "cells in which trips start",
    "steps": "moves, stays and ends of trips by cell",
    "stays": "durations of stays",
    **{f"grams_{cells}": f"sequences of {cells} cells" for cells in (2, 3, 4)},
    **{f"level_{level}": f"level {level} of the trees of trips" for level in range(1, 33)},
}

SITES_PAY_FOR = {
    "users": "the number of users",
    "people": "users by class (commuter, other) and number of calls",
    "homes": "sites of homes",
    "works": "sites of work places",
    "distances": "distances of commutes",
    "flows": "commutes between regions",
    "hours": "hours of calls",
    "places": "shares of calls at home, at work and elsewhere",
    "elsewhere": "sites of calls elsewhere",
    "reach": "distances of calls elsewhere from home or work",
}
