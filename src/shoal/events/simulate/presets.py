"""The named cities: how large, where, how people live and how often they are seen."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date, timedelta

from shoal.errors import PlanError

KINDS = ("events", "trips", "samples", "transit")


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
    built_up: float = 1.0  # scales how far the city reaches from its hubs; below 1 the rest is open country
    # people
    employed: float = 0.62
    explore: float = 0.25  # share of leisure visits made to a place outside the usual anchors
    outings: float = 1.0  # scales how often people go out
    lunch: float = 0.3  # chance of leaving the work place at noon
    habit_spread: float = 0.3  # sd of the log of a person's own explore and outings
    reach: float = 1.0  # scales how far from home people work and go out
    site_skew: float = 0.45  # sd of the log of a site's own attraction
    # events: visits per user and week, distinct in (user, site, hour)
    visits_mean: float = 13.55
    visits_sd: float = 18.33
    visits_max: int = 732
    same_hour: float = 0.435  # chance that an event falls into an hour the user was already seen in
    irregularity: float = 0.15  # sd of the log of each site-hour's own factor
    bursts_per_week: int = 0  # concerts, matches: crowds at one place for some hours
    # samples: per user and hour of the window
    samples_per_hour: float = 0.9
    samples_spread: float = 0.6  # sd of the log of a user's own rate
    # a phone is served by one of the next three sites instead of the nearest, record by record
    events_wander: float = 0.3  # as many sites per hour as Acs and Castelluccia 2014 print
    samples_wander: float = 0.1
    # trips
    trip_share: float = 0.1  # share of the users who carry a GPS logger

    def __post_init__(self) -> None:
        for name in ("users", "weeks", "zones", "sites", "visits_max", "centres"):
            if getattr(self, name) < 1:
                raise PlanError("simulate-range", f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.users > 2**40:
            raise PlanError("simulate-range", f"users must be at most 2**40; got {self.users}.")
        if self.zones > 20_000 or self.sites > 6_000:
            raise PlanError(
                "simulate-range",
                f"at most 20,000 zones and 6,000 sites; got {self.zones} and {self.sites}.",
                "Simulate a part of the area.",
            )
        if self.weeks > 104:
            raise PlanError("simulate-range", f"weeks must be at most 104; got {self.weeks}.")
        if self.start.weekday() != 0:
            raise PlanError("simulate-start", f"the window must start on a Monday; got {self.start}.")
        if not self.visits_mean > 1 or not self.visits_sd > 0 or self.area_km2 <= 0:
            raise PlanError("simulate-range", "visits_mean must be above 1, visits_sd and area_km2 above 0.")
        if not 0.05 <= self.built_up <= 1:
            raise PlanError("simulate-range", f"built_up must be from 0.05 to 1; got {self.built_up}.")
        if not (0 <= self.events_wander <= 1 and 0 <= self.samples_wander <= 1):
            raise PlanError("simulate-range", "events_wander and samples_wander must be from 0 to 1.")
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


PRESETS: dict[str, CityPreset] = {
    preset.name: preset
    for preset in (
        CityPreset(
            name="town", users=200_000, weeks=1, zones=120, sites=160, area_km2=38.0, lon=5.04, lat=47.32
        ),
        CityPreset(
            name="paris",
            users=1_992_846,
            weeks=1,
            zones=989,
            sites=1303,
            area_km2=105.0,
            lon=2.342,
            lat=48.857,
        ),
        CityPreset(
            name="rough",
            users=400_000,
            weeks=1,
            zones=310,
            sites=420,
            area_km2=61.0,
            lon=5.38,
            lat=43.31,
            stretch=2.4,
            centres=6,
            wobble=0.12,
            irregularity=0.30,
            bursts_per_week=24,
            explore=0.4,
        ),
        CityPreset(
            name="abi",
            users=29_191,
            weeks=2,
            zones=300,
            sites=400,
            area_km2=2731.0,
            lon=-4.02,
            lat=5.36,
            time_zone="Africa/Abidjan",
            what=("samples",),
            stretch=1.6,
            centres=4,
            built_up=0.35,  # a fifth of the district of Abidjan is city
            site_skew=1.0,  # loads of base stations are log-normal, with a spread of one and more
        ),
        CityPreset(
            name="tfl",
            users=10_000,
            weeks=4,
            zones=500,
            sites=582,
            area_km2=1572.0,
            lon=-0.118,
            lat=51.509,
            time_zone="Europe/London",
            start=date(2026, 2, 2),
            what=("transit",),
            employed=0.93,
            explore=0.8,
            outings=1.2,
            lunch=0.03,
            habit_spread=0.6,
            reach=0.45,
            site_skew=1.5,
            centres=5,
        ),
    )
}


def preset_named(name: str) -> CityPreset:
    """The preset of that name, or an error that lists the names."""
    if name not in PRESETS:
        raise PlanError(
            "simulate-preset", f"there is no preset {name!r}.", f"Choose one of {', '.join(PRESETS)}."
        )
    return PRESETS[name]
