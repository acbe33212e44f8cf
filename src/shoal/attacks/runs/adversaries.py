"""The adversaries by name: what each tries, what it knows, and what it attacks.

The command makes a sub-command of each from the settings of its plan; the page offers those that attack a
kind of release. An attack itself is imported when it runs, so this table loads none.

>>> sorted(ADVERSARIES)
['inference', 'membership', 'reconstruct', 'recovery', 'synthetic', 'tracker', 'unicity']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.attacks.runs.plans import (
    InferencePlan,
    MembershipPlan,
    ReconstructPlan,
    RecoveryAttackPlan,
    ReleaseAttack,
    SyntheticAttackPlan,
    TrackerPlan,
    UnicityPlan,
)
from shoal.errors import PlanError
from shoal.privacy.ledger import open_ledger

if TYPE_CHECKING:
    from shoal.attacks.runs.findings import Findings
    from shoal.kinds.source import Progress


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


def attack_release(name: str, asked: ReleaseAttack, progress: Progress) -> dict[str, Any]:
    """Attack the raw data and one release of it; plain values for the page, the findings on disk."""
    from shoal.attacks.runs.findings import write_findings

    adversary = adversary_named(name)
    settings, plan = adversary.plan.of_release(asked)
    findings = adversary.run(settings, plan, asked.out, progress)
    paths = write_findings(asked.out, name, findings.figures, findings.curves, findings.html)
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


ADVERSARIES = {
    each.name: each
    for each in (
        Adversary(
            name="membership",
            goal="Is a person in the counts at all?",
            knows="every visit of the person, and other people like them",
            title="Whether a person is in the counts at all.",
            plan=MembershipPlan,
            reads="density",
            kinds=("density",),
            examples="""
shoal simulate town --users 6000 --out town
shoal attack membership --plan town/density.toml
shoal attack membership --plan town/density.toml --defence best,gaussian --epsilon 0.1,1,10
shoal attack membership --plan town/density.toml --knows past --group 1000
""",
        ),
        Adversary(
            name="inference",
            goal="Where is each person, slot by slot?",
            knows="each person's habits, from before the release",
            title="Where people are, from what is known of them and counts.",
            plan=InferencePlan,
            reads="density",
            kinds=("density",),
            examples="""
shoal simulate town --users 5000 --weeks 3 --out town
shoal attack inference --plan town/density.toml
shoal attack inference --plan town/density.toml --defence best,gaussian --epsilon 0.1,1
shoal attack inference --plan town/density.toml --split 2026-03-16 --release release
""",
        ),
        Adversary(
            name="recovery",
            goal="What was everybody's whole trajectory?",
            knows="nothing about anybody",
            title="Whole trajectories from counts alone.",
            plan=RecoveryAttackPlan,
            reads="density",
            kinds=("density",),
            slow="slow above some 5,000 people",
            examples="""
shoal simulate town --users 2000 --out town
shoal attack recovery --plan town/density.toml
shoal attack recovery --plan town/density.toml --defence best,gaussian --epsilon 0.1,1
shoal attack recovery --plan town/density.toml --release release --known-points 6
""",
        ),
        Adversary(
            name="unicity",
            goal="How many people do a few known points single out?",
            knows="one to four places and times of a person",
            title="How many people a few known points single out.",
            plan=UnicityPlan,
            reads="density",
            kinds=("density",),
            examples="""
shoal simulate town --users 6000 --out town
shoal attack unicity --plan town/density.toml
shoal attack unicity --plan town/density.toml --points 2,4 --side-m 0,1000,5000 --slots-merged 1,6,24
""",
        ),
        Adversary(
            name="synthetic",
            goal="Whose trips were the synthetic ones made from?",
            knows="all trips of a person, and other people's",
            title="Whose trips synthetic ones were made from, and whether they copy them.",
            plan=SyntheticAttackPlan,
            reads="trips",
            kinds=("synthetic",),
            examples="""
shoal simulate town --users 4000 --what trips --out town
shoal attack synthetic --plan town/synthetic.toml
shoal attack synthetic --plan town/synthetic.toml --unit trip --defence raw,tgm,tgm-np,bridges,prefix
shoal attack synthetic --plan town/synthetic.toml --defence bridges --epsilon 0.5,2 --worlds 30
""",
        ),
        Adversary(
            name="tracker",
            goal="Which record is whose?",
            knows="all that a person did for a stretch of tau, and more",
            title="Whether k records fit whatever a tracker saw.",
            plan=TrackerPlan,
            reads="release",
            kinds=("trajectories",),
        ),
        Adversary(
            name="reconstruct",
            goal="Which single visits do the answers give away?",
            knows="counting queries and their answers",
            title="Single visits from answers to counting queries.",
            plan=ReconstructPlan,
            reads="log",
            examples="""
shoal attack reconstruct queries.jsonl
shoal attack reconstruct queries.jsonl --plan density.toml --fewer-than 10
shoal attack reconstruct --demo --bits 2000 --queries 8000
shoal attack reconstruct --demo --bits 2000 --queries 8000 --epsilon 1
\b
A line of queries.jsonl:
{"zones": ["A", "B"], "slots": [8, 9], "except": ["L1"], "answer": 12}
""",
        ),
    )
}
