"""A made-up, calibrated city: zones, sites, people, and what an operator or an agency sees of them."""

from shoal.events.simulate.city import simulate_city
from shoal.events.simulate.presets import PRESETS, CityPreset, preset_named

__all__ = ["PRESETS", "CityPreset", "preset_named", "simulate_city"]
