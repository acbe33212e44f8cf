"""A plan of records with its public things opened, and what the release says of itself. Never an epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.anonymise.kmerge import COST_OF_A_BOX
from shoal.anonymise.kte import Kte
from shoal.engine.engine import Engine
from shoal.errors import PlanError
from shoal.events.schema import EventSource
from shoal.kinds.describe import Outcome, Prepared, as_list, opened_source, reading_of, unit_of, unit_sentence
from shoal.kinds.keys import key_of
from shoal.kinds.trajectories.plan import PlacesPlan, TrajectoryPlan
from shoal.kinds.trajectories.published import FILES, RECORDS, find_key
from shoal.kinds.verdict import Verdict
from shoal.privacy.ledger import Ledger
from shoal.release.manifest import NOT_DIFFERENTIALLY_PRIVATE, REFUTED, Manifest
from shoal.release.readme import as_plain, recipient_readme
from shoal.release.verify import sha256_file
from shoal.space.lattice import Lattice
from shoal.space.places import Sites

if TYPE_CHECKING:
    from shoal.kinds.run import RunResult
    from shoal.kinds.trajectories.compose import Composition

LIMITS = "No composition, no protection beyond the stated adversary."
SNAP = (
    "t = floor((time - start) / minutes); x = floor((lon - origin[0]) * metres_per_unit[0] / metres), y "
    "likewise with lat, origin[1], metres_per_unit[1]. Samples with t outside 0 .. steps - 1 are not part of "
    "the release; equal samples of a user count once."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTrajectories(Prepared):
    """A plan with its public things opened. Nothing here depends on a row of the records."""

    kind = "trajectories"
    guarantee = None
    mechanism = None
    plan: TrajectoryPlan
    source: EventSource
    opened: TrajectorySource
    anonymiser: Kte

    @property
    def window_us(self) -> tuple[int, int]:
        lattice = self.opened.lattice
        return lattice.start_us, lattice.start_us + lattice.steps * lattice.minutes * 60_000_000

    @property
    def unit_sentence(self) -> str:
        return unit_sentence(unit_of(self.plan.unit, self.plan.source, self.source))

    def what(self) -> str:
        tau, epoch = self.plan.minutes()
        return f"trajectories, k = {self.plan.k}, tau {tau} min, epoch {epoch} min"

    def notes(self) -> list[str]:
        n = self.anonymiser.tau_steps // self.anonymiser.epoch_steps
        notes = ["not differential privacy: no composition, no protection beyond the stated adversary."]
        if n > 1 and not self.plan.full_length:
            notes.append(
                f"tau is {n} epochs: people are grouped by {2 ** (n + 1)} patterns of activity, which "
                "takes time and suppresses more. An epoch as long as tau is cheaper."
            )
        return notes

    def public(self) -> dict[str, Any]:
        plan, sites = self.plan, self.opened.sites
        tau, epoch = plan.minutes()
        return {
            "lattice": self.opened.lattice.to_manifest(),
            "snapping": SNAP,
            "k": plan.k,
            "tau_minutes": tau,
            "epoch_minutes": epoch,
            "full_length": plan.full_length,
            "window": {"start": plan.window.start, "end": plan.window.end},
            "time_zone": plan.window.time_zone,
            "cost_of_a_box": dict(COST_OF_A_BOX),
            "price_of_suppression": plan.price,
            "boxes_count_longer_by_epochs": self.anonymiser.longer,
            "pairs_forgotten_after_days": plan.forget_days,
            "block_users": plan.block_users,
            "sites": None if sites is None else {"count": sites.count, "sha256": sites.digest()},
            "reading": reading_of(self.source),
        }

    def verdict(self) -> Verdict:
        return Verdict(
            grade=None,
            summary="The size of the boxes depends on how alike the records are, and the run measures it. It "
            "grows with k and tau.",
        )

    def files(self) -> Mapping[str, Mapping[str, str]]:
        return FILES

    def rows(self) -> list[tuple[str, str]]:
        plan, lattice = self.plan, self.opened.lattice
        origin = f"{lattice.origin[0]}, {lattice.origin[1]}"
        return [
            ("population", plan.population),
            ("epoch", f"{plan.minutes()[1]} minutes"),
            ("window", f"{plan.window.start} to {plan.window.end}, {plan.window.time_zone}"),
            ("lattice", f"{lattice.metres:g} m, {lattice.minutes} min, from {origin}"),
            ("source", ", ".join(sorted(self.source.columns))),
            ("spends", "nothing: not differential privacy; the ledger lists the release"),
        ]

    def foreseen(self, ledger: Ledger) -> dict[str, Any]:
        """What is promised, and the earlier releases that would have to be named."""
        from shoal.kinds.trajectories.compose import check_named, earlier_releases

        plan, (tau, epoch) = self.plan, self.plan.minutes()
        known, stops = ledger.state().find(plan.population) is not None, []
        stored = ledger.find(plan.population, self.key()) if known else None
        listed = earlier_releases(ledger, self, Path(plan.owner)) if known else []
        earlier = [each for each in listed if stored is None or each.sha256 != stored.manifest_sha256]
        try:
            check_named(earlier, plan.population)
        except PlanError as error:
            stops.append(error)
        overlapping = [each for each in earlier if each.overlaps]
        promise = f"{plan.k} records fit any observation of a {plan.unit} in any {tau} minutes."
        if overlapping:
            promise = (
                "Nothing is promised: the measured result of linking with earlier releases is stated instead."
            )
        return {
            "k": plan.k,
            "tau_minutes": tau,
            "epoch_minutes": epoch,
            "lattice": self.opened.lattice.to_manifest(),
            "promise": promise,
            "obstacles": stops,
            "to_compose": [each.sha256 for each in overlapping if each.named is None],
        }

    def expected(self, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
        return [("promise", summary["promise"].removesuffix("."))]

    def outcome(self, result: RunResult) -> Outcome:
        key = find_key(Path(self.plan.owner), sha256_file(result.release / RECORDS))
        figures = {**result.figures, "verification": result.figures.get("verified")}
        return Outcome(
            lines=[] if result.reused else in_words(self, result),
            places=[] if key is None else [("key", key, "whose record is whose: keep it to yourself")],
            figures={
                "record_key": None if key is None else str(key),
                **figures,
                "verified": bool(result.verified),
            },
        )

    def key_parts(self) -> list[Any]:
        plan, sites = self.plan, self.opened.sites
        settings = key_of(plan) | {"minutes": plan.minutes()}
        lattice = self.opened.lattice.to_manifest()
        return ["trajectories", settings, lattice, asdict(plan.window), sites and sites.digest()]


def prepare_trajectories(plan: TrajectoryPlan, engine: Engine | None = None) -> PreparedTrajectories:
    """Open everything public; reads headers of the records, no rows."""
    opened = open_trajectories(plan, engine)
    return PreparedTrajectories(plan=plan, source=opened.source, opened=opened, anonymiser=plan.anonymiser())


def trajectories_manifest(
    prepared: PreparedTrajectories,
    records: int,
    *,
    verified: bool,
    single: Mapping[str, float | None] | None = None,
    composition: Composition | None = None,
) -> Manifest:
    """Promise, public parameters and columns; `verified` is what the tracker found.

    `single`: share of people with a single record that fits, by what is known of them.
    """
    plan, source = prepared.plan, prepared.source
    tau, _ = plan.minutes()
    return Manifest(
        unit=prepared.unit_sentence,
        promise=_promise(plan.k, tau, plan.unit, composition) if verified else REFUTED,
        guarantee={
            "kind": NOT_DIFFERENTIALLY_PRIVATE,
            "unit": plan.unit,
            "adversary": f"tracked one {plan.unit} for any {tau} minutes and knows every sample of "
            "that time, and when there was none",
            "verified": verified,
            "limits": LIMITS,
        },
        public=prepared.public(),
        read_from_data={
            "records": records,
            **({} if single is None else {"share_with_single_record": dict(single)}),
            **({} if composition is None else composition.to_plain()),
        },
        spends=[],
        population=plan.population,
        input={"shape": str(source.shape), "columns": sorted(source.columns)},
        columns={name: dict(columns) for name, columns in FILES.items()},
        licence=plan.licence or "none given by the owner yet",
    )


def _promise(k: int, tau: int, unit: str, composed: Composition | None) -> str:
    overlaps = composed is not None and composed.overlaps
    return composed.promise(k, tau, unit) if composed and overlaps else promise(k, tau, unit)


def promise(k: int, tau: int, unit: str) -> str:
    """One sentence."""
    return (
        f"An adversary who tracked one {unit} for any {tau} minutes finds at least {k} records here that "
        "agree with all of it."
    )


def trajectories_readme(manifest: Manifest) -> str:
    """For the recipient: what a box is, what was left out, what was measured and is not protected."""
    public, measured = manifest.public, manifest.read_from_data
    lattice, unit = public["lattice"], as_plain(manifest.guarantee["unit"])
    points = [
        "There is no noise and no synthetic point. A row is a box: the person of this record was, at least "
        f"once, somewhere in these cells ({lattice['metres']:g} m each) during these steps "
        f"({lattice['minutes']} min each).",
        "Boxes of a record do not overlap in time. Between boxes samples may have been suppressed: where too "
        f"few people are similar, whole periods of {public['epoch_minutes']} minutes are.",
        f"There are {measured['records']} records, one for each {unit} in the data; those of which nothing "
        "could be kept have no row. This number and the shares below were read from the data.",
        public["snapping"],
        f"{manifest.guarantee['limits']} The records that agree need not be equally likely to someone who "
        "knows the method. A recipient of another release about the same people may find a single record "
        "that fits.",
        *_measured(measured, public["tau_minutes"], unit),
        "Attribute disclosure is not prevented: what all fitting records have in common is learned without "
        f"knowing which is whose. Membership is not hidden: that a {unit} is in the data can be learned.",
        *(_earlier(each) for each in measured.get("earlier_releases", ())),
    ]
    overlaps = any(each["overlaps"] for each in measured.get("earlier_releases", ()))
    first = f"**{as_plain(manifest.promise)}**" if overlaps else ""
    return recipient_readme(manifest, FILES, as_list(points) + DRAW, first)


DRAW = """

The boxes of one record on a map, coloured by time, in Python with geopandas and matplotlib:

```python
import geopandas
import matplotlib.pyplot as plt

boxes = geopandas.read_parquet("records.parquet")
one = boxes[boxes.record == boxes.record.iloc[0]].sort_values("start")
hours = (one.start - one.start.min()).dt.total_seconds() / 3600
axes = one.plot(hours, alpha=0.4, edgecolor="black", legend=True, legend_kwds={"label": "hours"})
axes.set_title(f"Record {one.record.iloc[0]}: {one.start.min():%Y-%m-%d} to {one.end.max():%Y-%m-%d}")
plt.savefig("record.png", dpi=150)
```"""


def _measured(measured: Mapping[str, Any], tau: int, unit: str) -> list[str]:
    """Shares of people with a single fitting record under more knowledge than one period."""
    single = measured.get("share_with_single_record", {})
    two, four = single.get("two_stretches_of_tau"), single.get("four_points")
    known = {f"two separate periods of {tau} minutes": two, "four points at random times": four}
    shares = [f"{words}, {share:.1%}" for words, share in known.items() if share is not None]
    if not shares:
        return []
    return [
        f"Measured, not promised: share of {unit}s for whom a single record fits what is known of "
        f"them by {'; by '.join(shares)}."
    ]


def _earlier(release: Mapping[str, Any]) -> str:
    """An earlier release about the same people, and what linking gave."""
    share, window = release["records_linked_share"], release["window"]
    when = "an unknown window" if window is None else f"{window['start']} to {window['end']}"
    linked = "not measured" if share is None else f"{share:.1%}"
    return (
        f"An earlier release about the same population covers {when} "
        f"(manifest {release['manifest_sha256'][:12]}). Records of both that were linked to "
        f"the right ones without any other knowledge: {linked}."
    )


def in_words(prepared: PreparedTrajectories, result: RunResult) -> list[str]:
    """The figures, a line each."""
    figures, plan = result.figures, prepared.plan
    tau, _ = plan.minutes()
    utility, verified = figures["utility"], figures["verified"]
    space, time = (utility["granularity"]["per_box"][name] for name in ("space_m", "time_min"))
    head = "VERIFIED" if figures["verified"]["passed"] else "UNSAFE, NOT FOR PUBLICATION"
    linked = _linked(figures["read_from_data"], plan.k)
    if figures["read_from_data"].get("with_overlapping_releases"):
        head += ", this release taken alone"
    return [
        *linked,
        f"{head}: k = {plan.k}, tau = {tau} minutes, {verified['pairs_checked']:,} pairs of user and start "
        f"checked, {verified['violations']:,} violations.",
        f"{figures['users']:,} records, {utility['samples']:,} samples in {utility['boxes']:,} boxes; "
        f"{utility['suppressed_share']:.2%} of the samples suppressed.",
        *_spans(space, time),
        *_counted(figures),
        *(() if plan.full_length else measured_lines(figures["measured"], plan.k, most_lags=3)),
        "No composition, no protection beyond the stated adversary.",
        "",
    ]


def _linked(figures: dict[str, Any], k: int) -> list[str]:
    """What linking with earlier releases about the same people gives."""
    lines = []
    for each in figures.get("earlier_releases", ()):
        share, window = each["records_linked_share"], each["window"]
        linked = "not measured" if share is None else f"{share:.1%} of the records linked to the right ones"
        when = "unknown window" if window is None else f"{window['start'][:10]} to {window['end'][:10]}"
        lines.append(f"Earlier release {each['manifest_sha256'][:12]} ({when}): {linked}.")
    both = figures.get("with_overlapping_releases")
    if both and both["fewer_than_k_share"] is not None:
        lines.append(
            f"With the releases that overlap, fewer than {k} linked records fit in "
            f"{both['fewer_than_k_share']:.1%} of windows; in {both['own_record_alone_share']:.1%} only the "
            "person's own. The promise of k is replaced by these figures. For a recipient of both, "
            "the promise of the earlier releases fails as well."
        )
    return lines


def _spans(space: dict[str, float | None], time: dict[str, float | None]) -> list[str]:
    across = [space[name] for name in ("q1", "median", "q3")]
    lasting = [time[name] for name in ("q1", "median", "q3")]
    if None in across:
        return ["Nothing could be kept: no records are alike enough. Longer epochs or a lower k may help."]
    km = " / ".join(f"{value / 1000:.1f}" for value in across if value is not None)
    minutes = " / ".join(f"{value:.0f}" for value in lasting if value is not None)
    return [f"A box spans {km} km (width + height) and {minutes} min (quartiles)."]


def _counted(figures: dict[str, Any]) -> list[str]:
    texts = {
        "repeated": "rows repeated a sample of the same user, cell and step, and count once.",
        "pairs_again": "times two people had to hide each other again: too few others.",
    }
    return [f"{figures[name]:,} {text}" for name, text in texts.items() if figures[name]]


def measured_lines(measured: dict[str, Any], k: int, most_lags: int | None = None) -> list[str]:
    """What was measured on random windows and is never promised, in lines."""
    lines = []
    if measured["candidates_quartiles"] is not None:
        shown = " / ".join(f"{each:g}" for each in measured["candidates_quartiles"])
        lines.append(f"Records that fit a window: {shown} (quartiles).")
    lags = [lag for lag in measured["leakage_by_lag"] if lag["share"] is not None]
    lines += [
        f"{lag['from_epochs']} to {lag['to_epochs']} epochs before or after the window, {lag['share']:.1%} "
        "of the person's samples lie in a box of every record that fits."
        for lag in lags[:most_lags]
    ]
    return lines + [
        f"An adversary who knows {known['knows']}: fewer than {k} records fit in "
        f"{known['fewer_than_k_share']:.1%} of cases, a single one in {known['only_one_share']:.1%}."
        for known in measured["more_knowledge"]
        if known["windows"]
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectorySource:
    """A source, its lattice, and the sites its places are named by; no row is read yet."""

    source: EventSource
    lattice: Lattice
    sites: Sites | None = field(default=None, repr=False)

    @property
    def site_ids(self) -> tuple[str, ...] | None:
        return None if self.sites is None else self.sites.ids


def open_trajectories(plan: TrajectoryPlan, engine: Engine | None = None) -> TrajectorySource:
    """Headers and public files; no row is read."""
    source = opened_source(plan.source, engine)
    _ = unit_of(plan.unit, plan.source, source)  # refused before any row is read
    sites = _sites(plan.space) if source.shape.has_sites else None
    planar = source.planar if sites is None else sites.crs is None
    return TrajectorySource(source=source, lattice=plan.lattice(planar=planar), sites=sites)


def _sites(space: PlacesPlan) -> Sites:
    if space.sites is None:
        raise PlanError(
            "sites-missing", "the records name sites; their places are not known.", "Pass --sites FILE."
        )
    sites = space.read_sites()
    if sites.crs not in (None, "EPSG:4326"):
        raise PlanError(
            "sites-crs",
            f"the sites are in {sites.crs}; a lattice takes longitude and latitude, or planar metres.",
            "Give their lon and lat.",
        )
    return sites
