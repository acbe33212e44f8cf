"""A plan of a release made of trips, with its public things opened: what all kinds of them share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shoal.events.schema import EventSource
from shoal.kinds.run_key import as_typed, earlier_name, run_name, source_digest
from shoal.kinds.source import contents_of
from shoal.kinds.trip_plan import TRIP
from shoal.privacy.guarantee import Guarantee
from shoal.release.audit_cases import with_audit_case
from shoal.release.manifest import Manifest
from shoal.release.resources import Needs
from shoal.space.cells import CellGrid
from shoal.space.clock import Clock

if TYPE_CHECKING:
    from shoal.events.schema import TripRule

TRIP_SENTENCE = (
    "One trip of one user: all points of that trip in the window, {found}. "
    "As declared by the owner, this is not a person: who made many trips is not protected as a person."
)


class PreparedTrips:
    """Said alike of every release made of trips."""

    plan: Any
    source: EventSource
    window_us: tuple[int, int]
    guarantee: Guarantee
    mechanism: Any

    @property
    def grid(self) -> CellGrid:
        raise NotImplementedError

    def needs(self) -> Needs:
        """Memory and disk of the run, from public numbers."""
        raise NotImplementedError

    def places(self) -> dict[str, Any]:
        """The public map, as it enters the key."""
        return self.grid.describe()

    def what(self) -> str:
        """The release in a line, for the ledger."""
        raise NotImplementedError

    def key(self) -> str:
        """Names the run by public values: the same plan, population and run id are the same release."""
        kind, asked, *more = self.asked()
        return run_name(kind, self.plan.source, *self._public(asked), *more)

    def earlier_key(self) -> str:
        """The key of this run in ledgers written before, where files entered by their content."""
        kind, asked, *more = self.asked()
        settings, *rest = self._public(asked)
        understood, settings = self.source.understood(), as_typed(self.plan, settings)
        return earlier_name(kind, settings, understood, *rest, *more, contents_of(self.source))

    def source_digest(self) -> str:
        """Private, for the owner's ledger: whether the files are those of an earlier run."""
        return source_digest(self.source)

    def asked(self) -> tuple[Any, ...]:
        """The kind of release, the settings of the plan that name its run, and what else does."""
        raise NotImplementedError

    def _public(self, asked: Iterable[str]) -> list[Any]:
        plan = self.plan
        settings = {name: getattr(plan, name) for name in asked}
        return [settings, rule_of(plan.trip_rule), self.window_us, self.places()]

    def line(self, kind: str, places: str) -> str:
        """Kind, method, map, window and unit, for the ledger."""
        plan = self.plan
        return f"{kind}, {plan.method}, {places}, {plan.window.start} to {plan.window.end}, per {plan.unit}"

    @property
    def each_trip(self) -> bool:
        return self.plan.unit == TRIP

    @property
    def unit_sentence(self) -> str:
        """Whom the promise is about; the first line of the manifest."""
        if not self.each_trip:
            return self.guarantee.unit.sentence
        named = "as the source names it" if self.plan.trip_rule is None else "as the trip rule finds it"
        return TRIP_SENTENCE.format(found=named)


def trip_manifest(
    prepared: PreparedTrips,
    *,
    public: dict[str, Any],
    spends: list[dict],
    columns: dict[str, dict[str, str]],
    reproducible: bool,
    **noisy: float | None,
) -> Manifest:
    """What a release made of trips says of itself; `noisy`: known of the input once noise was added."""
    plan, guarantee, source = prepared.plan, prepared.guarantee, prepared.source
    manifest = Manifest(
        unit=prepared.unit_sentence,
        promise=guarantee.sentence,
        guarantee=guarantee.to_manifest(),
        public=public,
        spends=spends,
        population=plan.population,
        input={"shape": str(source.shape), "columns": sorted(source.columns), **noisy},
        columns=columns,
        licence=plan.licence or "none given by the owner yet",
        reproducible=reproducible,
    )
    return with_audit_case(manifest)


def window_us(clock: Clock) -> tuple[int, int]:
    return int(clock.edges_us[0]), int(clock.edges_us[-1])


def rule_of(rule: TripRule | None) -> dict[str, Any] | None:
    return None if rule is None else asdict(rule)


def cut_words(each_trip: bool) -> str:
    """What becomes of a trip at the edge of the map, for the manifest."""
    pieces = "its pieces are trips"
    if each_trip:
        pieces = "the piece with most points is kept"
    return f"dropped; the trip is cut there, as at a jump, and {pieces}"
