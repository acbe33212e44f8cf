"""People with homes, work places and calls, drawn from noisy tables: any number of them, from a seed.

Class and number of calls; home and work place of a commuter together, the home of others; then their calls
(`commute_calls`). What is drawn for a person does not depend on how many others there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shoal.errors import PlanError
from shoal.postprocess.commute_calls import draw_calls
from shoal.postprocess.commute_fit import PART_OF_KIND, CommuteFit, fit_commutes
from shoal.postprocess.draws import pick, uniforms
from shoal.space.commute_setting import CALLS, COMMUTER, HOUR_KINDS, NO_HOME, CommuteSetting
from shoal.stages.commutes import NoisyCommutes, SyntheticEvents

PERSON, SIZE, HOME = 1, 2, 3  # purposes of chances


@dataclass(frozen=True, kw_only=True, eq=False)
class CommuteModel:
    """All that was bought, and how people are drawn from it."""

    noisy: NoisyCommutes
    setting: CommuteSetting = field(repr=False)

    @property
    def users(self) -> float:
        """The noisy number of users, at least 1."""
        return self.fit.users

    def numbers(self) -> dict[str, np.ndarray]:
        """Every noisy number by name: the model, complete."""
        return dict(self.noisy.tables)

    @cached_property
    def fit(self) -> CommuteFit:
        return fit_commutes(self.noisy, self.setting)

    def generate(self, count_users: int, seed: int) -> SyntheticEvents:
        """Events of `count_users` people. The seed is not for privacy: the model was paid for."""
        if count_users < 0:
            raise PlanError("people-range", f"the number of people cannot be negative; got {count_users}.")
        setting, fit = self.setting, self.fit
        kind, calls, home, work = self._people(count_users, seed)
        first = np.concatenate([[0], np.cumsum(calls)]).astype(np.int64)
        time_us, site = np.empty(first[-1], np.int64), np.empty(first[-1], np.int32)
        order = np.argsort(setting.kind_of_slot, kind="stable")
        begin = np.searchsorted(setting.kind_of_slot[order], np.arange(HOUR_KINDS + 1))
        hours = (setting.clock.edges_us, order, begin, PART_OF_KIND)
        people = (first, kind, home, work)
        draw_calls(np.uint64(seed), people, hours, (fit.hours, fit.places), self._nearby, time_us, site)
        person = np.repeat(np.arange(count_users), calls)
        by_time = np.lexsort((site, time_us, person))
        return SyntheticEvents(
            people=count_users, person=person, time_us=time_us[by_time], site=site[by_time]
        )

    def _people(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Class, calls, home and work place of everyone."""
        fit, sites = self.fit, self.setting.sites
        drawn = pick(fit.people, uniforms(seed, PERSON, count)) if count else np.zeros(0, np.int64)
        kind, bin_of = drawn // CALLS.size, drawn % CALLS.size
        low = np.concatenate([[1], CALLS[:-1] + 1])[bin_of]
        calls = low + ((CALLS[bin_of] - low + 1) * uniforms(seed, SIZE, count)).astype(np.int64)
        chance = uniforms(seed, HOME, count)
        unseen = kind == NO_HOME
        home = np.where(unseen, pick(fit.homes[2], chance), pick(fit.homes[1], chance)) if count else drawn
        work = home.copy()
        commutes = kind == COMMUTER
        if commutes.any():
            both = pick(fit.pairs, chance[commutes])
            home[commutes], work[commutes] = both // sites, both % sites
        return kind, np.maximum(calls, 1 + (kind <= COMMUTER)), home, work

    @cached_property
    def _nearby(self) -> tuple[np.ndarray, ...]:
        """For each site the others by distance, running sums of calls there, and where classes begin.

        12 bytes for each pair of sites.
        """
        setting, fit = self.setting, self.fit
        xy, sites, distances = setting.site_xy_m, setting.sites, setting.distances
        order, running = np.empty((sites, sites), np.int32), np.empty((sites, sites + 1))
        begin = np.empty((sites, distances + 1), np.int64)
        for site in range(sites):
            metres = np.hypot(*(xy - xy[site]).T)
            order[site] = np.argsort(metres, kind="stable")
            far = np.searchsorted(setting.distance_ends_m, metres[order[site]])
            begin[site] = np.searchsorted(far, np.arange(distances + 1))
            weight = np.where(order[site] == site, 0.0, fit.elsewhere[order[site]])
            running[site] = np.concatenate([[0.0], np.cumsum(weight)])
        reach = fit.reach if fit.reach is not None else np.zeros((0, 0, 0))
        return order, running, begin, reach
