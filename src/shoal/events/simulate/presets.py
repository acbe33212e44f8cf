"""The named cities: how large, where, how people live and how often they are seen."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date, timedelta
from typing import Any

from shoal.errors import PlanError

KINDS = ("events", "points", "trips", "samples", "transit")
RANGES = {
    **dict.fromkeys(("users", "visits_max", "centres"), (1, 2**40)),
    "weeks": (1, 104),
    "zones": (1, 20_000),
    "sites": (1, 6_000),
    "built_up": (0.05, 1),
    "events_wander": (0, 1),
    "samples_wander": (0, 1),
    "zone_pieces": (1, 20),
    "rush": (1, 20),
    **dict.fromkeys(("concert", "market", "vehicles"), (0, 0.5)),
}


@dataclass(frozen=True, kw_only=True)
class CityPreset:
    """Every public parameter of a simulated city; change one with `dataclasses.replace`."""

    name: str
    users: int
    weeks: int
    zones: int
    sites: int
    area_km2: float
    lon: float
    lat: float
    time_zone: str = "Europe/Paris"
    start: date = date(2026, 3, 2)  # a Monday
    what: tuple[str, ...] = ("events",)
    # shape of the city
    stretch: float = 1.25  # long axis against short axis
    centres: int = 3  # business and night-life hubs
    wobble: float = 0.06  # how ragged the outline is
    zone_pieces: int = 1  # Voronoi cells that a zone is joined of; above 1, zones are not convex
    built_up: float = 1.0  # scales how far the city reaches from its hubs; below 1 the rest is open country
    # people
    employed: float = 0.62
    explore: float = 0.25  # share of leisure visits made to a place outside the usual anchors
    outings: float = 1.0  # scales how often people go out
    lunch: float = 0.3  # probability of leaving the work place at noon
    habit_spread: float = 0.3  # sd of the log of a person's own explore and outings
    reach: float = 1.0  # scales how far from home people work and go out
    site_skew: float = 0.45  # sd of the log of a site's own attraction
    # events: visits per user and week, distinct in (user, site, hour)
    visits_mean: float = 13.55
    visits_sd: float = 18.33
    visits_max: int = 732
    same_hour: float = 0.435  # probability that an event falls into an hour the user was already seen in
    irregularity: float = 0.15  # sd of the log of each site-hour's own factor
    bursts_per_week: int = 0  # concerts, matches: crowds at one place for some hours
    rush: float = 1.0  # scales rates at 7, 8, 17 and 18 h; above 1, working days begin and end on the hour
    # beside the diaries of people (gatherings.py), as shares of the users
    concert: float = 0.0  # at one zone, on one evening of the window, for four hours
    market: float = 0.0  # at another zone on Sundays, for two hours of five
    vehicles: float = 0.0  # of a fleet: about 800 visits a week each
    # samples: per user and hour of the window
    samples_per_hour: float = 0.9
    samples_spread: float = 0.6  # sd of the log of a user's own rate
    # a phone is served by one of the next three sites instead of the nearest, record by record
    events_wander: float = 0.3  # as many sites per hour as Acs and Castelluccia 2014 print
    samples_wander: float = 0.1
    # trips
    trip_share: float = 0.1  # share of the users who carry a GPS logger

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise PlanError(
                    "simulate-range",
                    f"{name} must be from {least:,} to {most:,}; got {getattr(self, name)}.",
                    "Simulate a smaller area or time, or other habits.",
                )
        if self.start.weekday() != 0:
            raise PlanError("simulate-start", f"the window must start on a Monday; got {self.start}.")
        if not self.visits_mean > 1 or not self.visits_sd > 0 or self.area_km2 <= 0:
            raise PlanError("simulate-range", "visits_mean must be above 1, visits_sd and area_km2 above 0.")
        unknown = [kind for kind in self.what if kind not in KINDS]
        if unknown or not self.what:
            raise PlanError(
                "simulate-what",
                f"--what takes one or more of {', '.join(KINDS)}; got {', '.join(unknown) or 'nothing'}.",
            )

    @property
    def end(self) -> date:
        return self.start + timedelta(weeks=self.weeks)

    def as_json(self) -> dict:
        """All fields as plain values, for city.json."""
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**row, "start": self.start.isoformat(), "what": list(self.what)}


_SIZES = {  # users, weeks, zones, sites, square kilometres, longitude, latitude
    "town": (200_000, 1, 120, 160, 38.0, 5.04, 47.32),
    "paris": (1_992_846, 1, 989, 1303, 105.0, 2.342, 48.857),
    "rough": (400_000, 1, 310, 420, 61.0, 5.38, 43.31),
    "abi": (29_191, 2, 300, 400, 2731.0, -4.02, 5.36),
    "tfl": (10_000, 4, 500, 582, 1572.0, -0.118, 51.509),
    "events-city": (50_000, 1, 300, 500, 80.0, 4.84, 45.76),
}
_SHAPES: dict[str, dict[str, Any]] = {
    "rough": {"stretch": 2.4, "centres": 6, "wobble": 0.12, "irregularity": 0.30},
    # A fifth of the district of Abidjan is city. Loads of base stations are log-normal, with a spread of one.
    "abi": {"stretch": 1.6, "centres": 4, "built_up": 0.35, "site_skew": 1.0},
    "tfl": {"centres": 5, "reach": 0.45, "site_skew": 1.5},
    "events-city": {"stretch": 1.5, "wobble": 0.10, "zone_pieces": 5},
}
_HABITS: dict[str, dict[str, Any]] = {
    "rough": {"bursts_per_week": 24, "explore": 0.4},
    "tfl": {"employed": 0.93, "explore": 0.8, "outings": 1.2, "lunch": 0.03, "habit_spread": 0.6},
    "events-city": {"rush": 2.5, "concert": 0.028, "market": 0.016, "vehicles": 0.006},
}
_RECORDS: dict[str, dict[str, Any]] = {
    "abi": {"time_zone": "Africa/Abidjan", "what": ("samples",)},
    "tfl": {"time_zone": "Europe/London", "start": date(2026, 2, 2), "what": ("transit",)},
    "events-city": {"what": ("points",), "visits_mean": 15.0, "visits_sd": 40.0, "visits_max": 800},
}
_SIZE_NAMES = ("users", "weeks", "zones", "sites", "area_km2", "lon", "lat")
PRESETS: dict[str, CityPreset] = {
    name: CityPreset(
        name=name,
        **dict(zip(_SIZE_NAMES, sizes, strict=True)),
        **_SHAPES.get(name, {}),
        **_HABITS.get(name, {}),
        **_RECORDS.get(name, {}),
    )
    for name, sizes in _SIZES.items()
}


def preset_named(name: str) -> CityPreset:
    """The preset of that name, or an error that lists the names."""
    if name not in PRESETS:
        raise PlanError(
            "simulate-preset", f"there is no preset {name!r}.", f"Choose one of {', '.join(PRESETS)}."
        )
    return PRESETS[name]
