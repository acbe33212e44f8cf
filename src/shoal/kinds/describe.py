"""Key, dry run and manifest of a release of any kind, rendered from the prepared objects.

The key of a run consists of public values alone. It decides whether a run returns a stored release or spends
budget, and anyone who sees two publications can tell which of the two happened. So it holds the parsed plan,
the population, the run id, public maps by their content, and the source as the plan writes it: never the
matched files, their sizes or contents. The digest of the contents is for the owner alone: it shows that files
changed under a known key. A setting that is added later enters the key only where it differs from its
default, so keys stay the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from shoal.errors import GuaranteeError, LedgerError, PlanError, ShoalError, printable
from shoal.events.schema import USUAL_NAMES, EventSource, ForeignSource, SourcePlan, plain_name
from shoal.kinds.keys import as_typed, digest_of, earlier_name, run_name
from shoal.mechanisms.method import Method
from shoal.privacy.accounting import NANO, PURE, Budget, Loss, compose
from shoal.privacy.guarantee import TRIP, Guarantee, Unit
from shoal.privacy.ledger import AlreadyReleased, Ledger, Population
from shoal.privacy.ledger.pots import check_budget
from shoal.privacy.ledger.rules import refuse_other_unit
from shoal.release.manifest import MANIFEST, Manifest, with_audit_case
from shoal.release.staging import MEGA, Needs, absolute, check_needs, refuse_existing, staging_path
from shoal.release.verify import sha256_file
from shoal.setting import settings_of
from shoal.space.clock import Clock

if TYPE_CHECKING:
    from shoal.engine.engine import Engine
    from shoal.kinds.run import RunResult
    from shoal.kinds.verdict import Verdict
    from shoal.release.folder import Committed

# Peak memory and size of a release are estimated per kind from public numbers of the plan alone, fitted to
# whole runs on little data, report included; `make bench-memory` measures ten plans anew.
BASE = 480 * MEGA  # the interpreter with its libraries, and the owner's report
SMALL_FILES = 8 * MEGA  # owner's report, manifest, README


class Spending(Protocol):
    """A mechanism, as its price is stated."""

    @property
    def name(self) -> str: ...

    def loss(self) -> Loss: ...

    def spends(self) -> Iterable[tuple[str, Loss]]: ...


@dataclass(frozen=True, kw_only=True)
class Table:
    """Figures for the terminal; numbers stand right."""

    header: tuple[str, ...]  # empty: no head, and the first column names the rows
    rows: Sequence[Sequence[str]]
    right: tuple[int, ...] = ()  # columns of numbers
    wraps: tuple[int, ...] = (-1,)  # columns whose cells may take several lines
    title: str = ""
    below: str = ""  # what the figures mean
    marks: Mapping[int, str] = field(default_factory=dict)  # row -> how it is set off: bold, dim or red
    most: int | None = None  # rows that are shown


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Output of a run that is particular to its kind."""

    lines: Sequence[str] = ()
    table: Table | None = None
    places: Sequence[tuple[str, Path, str]] = ()  # a name, a file of the owner's, what it is
    then: Sequence[str] = ()  # what can be done with the release now
    figures: Mapping[str, Any] = field(default_factory=dict)  # for programs


class Prepared(Protocol):
    """A plan with its public things opened. Nothing here depends on a row of the source."""

    kind: ClassVar[str]  # its name in KINDS
    pays_for: ClassVar[Mapping[str, str]] = {}  # name of each spend of the mechanism -> what it pays for
    plan: Any
    source: EventSource
    guarantee: Any  # a Guarantee; None: not differentially private, and there is no mechanism
    mechanism: Any

    def what(self) -> str:
        """The release in a line, for the ledger."""
        ...

    def needs(self) -> Needs | None:
        """Memory and disk of the run, from public numbers; None: not estimated."""
        return None

    def notes(self) -> list[str]:
        """Notes on the settings for the owner before the run; none of them stops it."""
        return []

    def public(self) -> dict[str, Any]:
        """Every parameter that shapes the output, all of them configured."""
        ...

    def files(self) -> Mapping[str, Mapping[str, str]]:
        """Published file -> column -> its meaning."""
        ...

    def reading(self) -> str:
        """Notes for the recipient, in Markdown: meaning of a row, size of the noise, valid uses.

        Empty where the README depends on what was measured.
        """
        return ""

    def rows(self) -> list[tuple[str, str]]:
        """Lines of the dry run: a name, and what was understood."""
        ...

    def key_parts(self) -> list[Any]:
        """Values that identify the run: the kind, the settings of the plan, and other public values."""
        ...

    def foreseen(self, ledger: Ledger) -> dict[str, Any]:
        """Fields of the dry run that only this kind has."""
        return {}

    def expected(self, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Lines of the dry run on the expected error."""
        return []

    def verdict(self) -> Verdict:
        """What the release will be good for, from the expected error; see `kinds/verdict.py`."""
        ...

    def table(self, summary: Mapping[str, Any]) -> Table | None:
        """Figures of the dry run that need a table."""
        return None

    def outcome(self, result: RunResult) -> Outcome:
        """Output of a run of this kind."""
        return Outcome()

    @property
    def out(self) -> str:
        """The folder of the release."""
        return self.plan.out

    @property
    def unit_sentence(self) -> str:
        """Definition of the unit that the promise covers; the first line of the manifest."""
        return unit_sentence(self.guarantee.unit)

    def key(self) -> str:
        """Digest of the public values that identify the run: plan, population and run id among them."""
        kind, *public = self.key_parts()
        return run_name(kind, self.plan.source, *public)

    def earlier_key(self) -> str:
        """The key of this run in ledgers written before, where files entered by their content."""
        kind, settings, *rest = self.key_parts()
        understood, settings = self.source.understood(), as_typed(self.plan, settings)
        return earlier_name(kind, settings, understood, *rest, contents_of(self.source))

    def source_digest(self) -> str:
        """Private, for the owner's ledger: whether the files are those of an earlier run."""
        return digest_of(["source", contents_of(self.source)])


def manifest_of(prepared: Prepared, *, reproducible: bool = False, **noisy: Any) -> Manifest:
    """Manifest of a private release before its files are hashed.

    `noisy`: what is known of the input once noise was added.
    """
    plan, source, guarantee = prepared.plan, prepared.source, prepared.guarantee
    manifest = Manifest(
        unit=prepared.unit_sentence,
        promise=guarantee.sentence,
        guarantee=guarantee.to_manifest(),
        public=prepared.public(),
        spends=spends_of(prepared.mechanism, prepared.pays_for, guarantee.law),
        population=plan.population,
        input={"shape": str(source.shape), "columns": sorted(source.columns), **noisy},
        columns={name: dict(columns) for name, columns in prepared.files().items()},
        licence=plan.licence or "none given by the owner yet",
        reproducible=reproducible,
    )
    return with_audit_case(manifest)


def window_of(clock: Clock) -> dict[str, Any]:
    """The window, as manifests state it."""
    window = {"start": clock.start.isoformat(), "end": clock.end.isoformat()}
    return {"window": window, "time_zone": clock.time_zone}


def reading_of(source: EventSource) -> dict[str, Any]:
    """How the files were read, as manifests state it."""
    published = (name for name, each in settings_of(SourcePlan).items() if each.setting.published)
    return {name: getattr(source, name) for name in published}


def as_list(points: Iterable[str]) -> str:
    """Points as a Markdown list."""
    return "\n".join(f"- {point}" for point in points)


def check_spends(mechanism: Any, budget: Budget) -> None:
    """The named spends must add up to the loss, and the loss must stay within the budget."""
    loss = mechanism.loss()
    listed = compose(spend for _, spend in mechanism.spends())
    within, _ = replace(budget, taken=()).take("whole", 1)
    if not within.covers(loss):
        raise GuaranteeError("over-budget", "the noise is too small for the requested privacy.")
    if listed != loss:
        raise GuaranteeError("spends", "the spends of the mechanism do not add up to its loss.")


def promised(plan: Any, loss: Loss, unit: Unit, budget: Budget) -> Guarantee:
    """The guarantee that was asked for, within which the noise is set; a rho is converted as it was spent."""
    law = PURE if budget.pure else budget.law
    if plan.epsilon is None:
        return Guarantee.of(loss, delta=plan.delta, unit=unit, law=law)
    return Guarantee(epsilon=plan.epsilon, delta=plan.delta or 0.0, loss=loss, unit=unit, law=law)


def priced(
    plan: Any, source: EventSource, setting: Any, method: Method, options: Any = None
) -> dict[str, Any]:
    """Fields of a `Prepared`: the plan, and its mechanism with what it promises, within the plan's budget."""
    budget = plan.budget()
    mechanism = method.build(budget, setting, options)
    check_spends(mechanism, budget)
    unit = unit_of(plan.unit, plan.source, source)
    return {
        "plan": plan,
        "source": source,
        "setting": setting,
        "method": method,
        "mechanism": mechanism,
        "guarantee": promised(plan, mechanism.loss(), unit, budget),
    }


def spends_of(mechanism: Spending, pays_for: Mapping[str, str], law: str | None = None) -> list[dict]:
    """Each named spend with what it pays for and what it costs by a law (that of their sum), in order."""
    law = law or compose(loss for _, loss in mechanism.spends()).law
    listed = []
    for name, loss in mechanism.spends():
        spend: dict[str, Any] = {
            "name": name,
            "pays_for": pays_for.get(name, ""),
            "mechanism": mechanism.name,
        }
        if law != PURE:
            spend["rho"] = loss.amount(law) / NANO
        if loss.pure_epsilon_nano is not None:
            spend["epsilon"] = loss.pure_epsilon_nano / NANO
        listed.append(spend)
    return listed


def dry_run(prepared: Prepared, ledger: Ledger) -> dict[str, Any]:
    """Dry run: price, budget left and obstacles, from public parameters and the ledger alone.

    The command prints it, the page draws it; both say the same. `exit_code` is that of the run.
    """
    population, needs = ledger.state().find(prepared.plan.population), prepared.needs()
    stored = None
    if population is not None and prepared.plan.seed is None:
        stored = population.released.get(prepared.key())
    summary: dict[str, Any] = {
        "dry_run": True,
        "plan": asdict(prepared.plan),
        "public": prepared.public(),
        "notes": prepared.notes(),
        "verdict": prepared.verdict().to_plain(),
        "spends": [],
        "stored": None if stored is None else stored.path,
    }
    if prepared.guarantee is not None:
        summary |= {
            "unit": prepared.unit_sentence,
            "promise": prepared.guarantee.sentence,
            "guarantee": prepared.guarantee.to_manifest(),
            "spends": spends_of(prepared.mechanism, prepared.pays_for, prepared.guarantee.law),
            "budget": price_of(prepared, population),
        }
    if needs is not None:
        summary["resources"] = needs.to_plain(Path(prepared.out))
    foreseen = prepared.foreseen(ledger)
    of_kind = foreseen.pop("obstacles", ())
    stops = [*obstacles(prepared, ledger, population), *of_kind] if stored is None else _missing(stored)
    lines = [f"{error.message} {error.remedy}".strip() for error in stops]
    return {**summary, "obstacles": lines, "exit_code": stops[0].exit_code if stops else 0, **foreseen}


def price_of(prepared: Prepared, population: Population | None) -> dict[str, Any] | None:
    """Charge to the pot that pays, and the rest of it; None without a budget."""
    if population is None:
        return None
    loss = prepared.mechanism.loss()
    pot = population.pot_for(loss, pot_of(prepared.plan))
    try:
        cost = pot.cost(loss)
    except LedgerError:  # the pot takes pure releases only
        cost = None
    return {
        "pot": pot.name,
        "title": pot.title,
        "currency": pot.currency,
        "limit_nano": pot.limit_nano,
        "left_nano": pot.left_nano,
        "cost_nano": cost,
        "epsilon": None if cost is None else pot.epsilon(cost),
        "epsilon_spent": pot.epsilon(pot.spent_nano),
        "epsilon_limit": pot.epsilon(pot.limit_nano),
    }


def pot_of(plan: Any) -> str:
    """The pot that a plan names; empty: that of its family of noise."""
    return getattr(plan, "pot", "") or getattr(getattr(plan, "place", None), "pot", "")


def obstacles(prepared: Prepared, ledger: Ledger, population: Population | None) -> list[ShoalError]:
    """Errors that would stop a run before it spends, in the order of the run."""
    plan, out, needs = prepared.plan, Path(prepared.out), prepared.needs()
    checks: list[Callable[[], Any]] = []
    if population is None:
        checks.append(lambda: ledger.state().population(plan.population))
    if plan.seed is None:  # a seeded run spends nothing and does not write `out`
        checks.append(lambda: refuse_existing(absolute(out)))
        if needs is not None:
            checks.append(lambda: check_needs(needs, out))
        if population is not None and prepared.mechanism is not None:
            loss, owner = prepared.mechanism.loss(), population
            checks.append(lambda: refuse_other_unit(owner, plan.unit))
            checks.append(lambda: _check_budget(owner, loss, pot_of(plan)))
    return [error for check in checks if (error := _refusal(check)) is not None]


def _check_budget(owner: Population, loss: Loss, named: str) -> None:
    pot = owner.pot_for(loss, named)
    check_budget(owner, pot, pot.cost(loss), loss)


def _missing(stored: AlreadyReleased) -> list[ShoalError]:
    """A stored release is returned for free, unless its folder is gone."""
    out = Path(stored.path)
    if any((folder / MANIFEST).is_file() for folder in (out, staging_path(out, stored.reservation))):
        return []
    gone = f"this run was released to {out} before, but that folder is gone."
    return [LedgerError("release-missing", gone, "Restore it from a copy, or pass a new --run-id.")]


def _refusal(check: Callable[[], Any]) -> ShoalError | None:
    try:
        check()
    except ShoalError as error:
        return error
    return None


def opened_source(plan: SourcePlan, engine: Engine | None = None) -> EventSource:
    """Headers and footers are read, no row."""
    from shoal.engine.engine import ReadsSources
    from shoal.events.source import open_planned

    if isinstance(engine, ReadsSources):
        return engine.open_source(plan)
    return open_planned(plan)


def named_columns(source: EventSource) -> dict[str, dict[str, str]]:
    """Each role with the column that has it, and the type of that column."""
    return {role: {"name": name, "type": source.types[role]} for role, name in source.columns.items()}


def unit_of(unit: str, plan: SourcePlan, source: EventSource) -> Unit:
    """The unit of privacy of an opened source; refuses ids of trips that would be called users."""
    column = source.columns["user"]
    if unit != TRIP and (column == plan.columns.get("trip") or plain_name(column) in USUAL_NAMES["trip"]):
        raise PlanError(
            "unit-trip",
            f'the column "{column}" identifies trips, so it cannot stand for a {unit}: the release would '
            f"promise all events of a {unit} and cover one trip.",
            "Pass --unit trip, or --column user=NAME with the column of persons.",
        )
    return Unit(unit, column)


def unit_sentence(unit: Unit) -> str:
    """The unit and the column that names it.

    >>> unit_sentence(Unit("user", "taxi"))
    'One user: all events of one person in the window. A person is one value of the column "taxi".'
    """
    if unit.name != "user":
        return unit.sentence
    column = unit.column if unit.column.isprintable() else printable(unit.column).replace("\n", " ")
    return f'{unit.sentence} A person is one value of the column "{column}".'


def contents_of(source: EventSource) -> list[str]:
    """Digests, sorted: the same bytes are the same source, wherever they lie."""
    if isinstance(source, ForeignSource):
        return sorted(source.contents())
    return sorted(sha256_file(Path(path)) for path in source.paths)


def near(path: Path) -> str:
    """Relative to the working directory where that is shorter to read."""
    shown = os.path.relpath(path)
    return shown if not shown.startswith("..") else str(path)


def release_name(committed: Committed) -> str:
    """The folder of a release on one line, whatever its name: for titles and the ledger."""
    name = committed.path.name
    return name if name.isprintable() else ascii(name)
