"""What the command says of a run: what it cost, what a tracker learns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.kinds.run import RunResult
    from shoal.kinds.trajectories.prepare import PreparedTrajectories


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
        "No composition, no protection beyond the stated tracker.",
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
        f"{lag['from_epochs']} to {lag['to_epochs']} epochs away, all of them cover {lag['share']:.1%} of "
        "the person's samples."
        for lag in lags[:most_lags]
    ]
    return lines + [
        f"An adversary who knows {known['knows']}: fewer than {k} records fit in "
        f"{known['fewer_than_k_share']:.1%} of cases, a single one in {known['only_one_share']:.1%}."
        for known in measured["more_knowledge"]
        if known["windows"]
    ]
