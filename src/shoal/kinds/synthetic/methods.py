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
    "hours": "the hours at which trips start",
    "starts": "where trips start",
    "steps": "where trips go from a cell, stay and end",
    "stays": "how long trips stay",
    **{f"grams_{cells}": f"sequences of {cells} cells" for cells in (2, 3, 4)},
    **{f"level_{level}": f"level {level} of the trees of trips" for level in range(1, 33)},
}

SITES_PAY_FOR = {
    "users": "the number of users",
    "people": "how many commute, and how often users call",
    "homes": "where users live",
    "works": "where commuters work",
    "distances": "how far commuters go",
    "flows": "between which regions they go",
    "hours": "the hours of calls",
    "places": "whether calls are at home, at work or elsewhere",
    "elsewhere": "where other calls are",
    "reach": "how far from home or work they are",
}
