"""The adversaries by name: what each tries, what it knows, and what it attacks (adversaries.toml).

The command makes a sub-command of each from the settings of its plan; the page offers those that attack a
kind of release. An attack itself is imported when it runs, so this table loads none.

>>> sorted(ADVERSARIES)
['inference', 'membership', 'reconstruct', 'recovery', 'synthetic', 'tracker', 'unicity']
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.attacks.runs import plans
from shoal.errors import PlanError
from shoal.privacy.ledger import open_ledger

if TYPE_CHECKING:
    from shoal.attacks.runs.findings import Findings
    from shoal.kinds.run import Progress


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """One adversary."""

    name: str
    goal: str
    knows: str
    title: str  # one line in a list of commands
    plan: Any  # the class of its plans
    reads: str  # density, trips or log: what the command takes; release: offered by the page alone
    kinds: tuple[str, ...] = ()  # of releases that it can be set on
    examples: str = ""
    slow: str = ""  # a warning, where it takes long

    def run(self, settings: Mapping[str, Any] | None, plan: Any, out: Path, progress: Progress) -> Findings:
        """Note the look at raw data in the ledger, and attack; `settings` say where the data lies, if any."""
        if settings is not None:
            note_look(settings, self.name, out)
        return import_module(f"shoal.attacks.runs.{self.name}").run(settings, plan, progress)


def attack_release(name: str, attack: plans.ReleaseAttack, progress: Progress) -> dict[str, Any]:
    """Attack the raw data and one release of it; plain values for the page, the findings on disk."""
    from shoal.attacks.runs.findings import write_findings

    adversary = adversary_named(name)
    settings, plan = adversary.plan.of_release(attack)
    findings = adversary.run(settings, plan, attack.out, progress)
    paths = write_findings(attack.out, name, findings.figures, findings.curves, findings.html)
    return {
        "adversary": name,
        "goal": adversary.goal,
        "knows": adversary.knows,
        "sentence": findings.sentence,
        "summary": list(findings.summary),
        **findings.chart,
        **({"page": paths["html"].name} if "html" in paths else {}),
    }


def adversary_named(name: str) -> Adversary:
    if name not in ADVERSARIES:
        raise PlanError("adversary", "there is no such adversary.", f"Choose from {', '.join(ADVERSARIES)}.")
    return ADVERSARIES[name]


def note_look(settings: Mapping[str, Any], attack: str, where: object) -> None:
    """The ledger lists that the owner looked at raw data, where the plan's population is in it."""
    population = settings.get("population")
    if not population:
        return
    ledger = open_ledger()
    if ledger.state().find(population) is None:
        return
    ledger.look(population, f"{attack} attack on raw events", str(where))


def _read() -> dict[str, Adversary]:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {
        name: Adversary(
            name=name, **{**row, "plan": getattr(plans, row["plan"]), "kinds": tuple(row["kinds"])}
        )
        for name, row in table.items()
    }


ADVERSARIES = _read()
