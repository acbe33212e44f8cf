"""The evidence pack of a release as one page without scripts, made to be printed or filed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.release.manifest import NONE_RECORDED, RECORDED, case_of, is_tuned
from shoal.release.page.page import asset, fill
from shoal.release.page.tables import flat, table, text, words

if TYPE_CHECKING:
    from shoal.release.evidence import Evidence

OWNER_ONLY = (
    '<p class="banner" role="alert"><strong>Owner\'s eyes only: the annex holds figures computed on raw data.'
    " Do not publish; export without the annex to pass it on.</strong></p>"
)
FOR_THE_FILE = (
    "What comes from raw data is on these pages only as it was released: through the mechanism that the "
    "budget paid for."
)
NOT_PRIVATE = (
    "This release is not differentially private. The number of its records is the number of people in the "
    "data, and its files were made from their records without noise."
)
DECLARED = (
    "Everything that shaped the output. All of it was declared or paid for; none was read off the data."
)
DECLARED_HERE = (
    "What shaped the output, as it was declared. What stands under read from data was counted or measured "
    "on the data: the number of people, and what attacks find."
)
AUDITED = (
    "An audit runs the mechanism many times on the worst pair of neighbours. It bounds epsilon from below "
    "(wrong with probability 1e-6), replays it on pairs of data sets, and checks that planted bugs are found."
)


def evidence_html(evidence: Evidence) -> str:
    """The whole page as text."""
    manifest = evidence.manifest
    return fill(
        asset("evidence.html"),
        {
            "css": asset("report.css"),
            "banner": OWNER_ONLY if evidence.attacks is not None else "",
            "population": text(manifest.population),
            "unit": text(manifest.unit),
            "promise": text(manifest.promise),
            "about": _about(evidence),
            "files": _files(evidence),
            "plan": _plan(manifest),
            "spends": _spends(manifest),
            "budget": _budget(evidence),
            "rows": _rows(evidence),
            "chain": _chain(evidence),
            "audit": _audit(evidence),
            "annex": "" if evidence.attacks is None else _annex(evidence),
            "scope": text(_scope(evidence)),
            "declared": text(DECLARED if manifest.is_private else DECLARED_HERE),
            "audited": text(AUDITED) if manifest.is_private else "",
            "check": "Audit of the mechanism" if manifest.is_private else "Verification",
            "folder": text(evidence.name),
        },
    )


def _scope(evidence: Evidence) -> str:
    if not evidence.manifest.is_private:
        return NOT_PRIVATE
    return "" if evidence.attacks is not None else FOR_THE_FILE


def _about(evidence: Evidence) -> str:
    manifest = evidence.manifest
    rows = [
        ["Created", manifest.created],
        ["Made by", " ".join(str(value) for value in manifest.package.values())],
        ["SHA-256 of the manifest", evidence.manifest_sha256],
        ["Licence", manifest.licence],
        ["A look at private data, in the owner's ledger", _looks(manifest)],
        ["Folder checked now, as its recipient", "every hash and the guarantee hold"],
    ]
    return table(["", ""], rows)


def _looks(manifest: Any) -> str:
    return RECORDED if is_tuned(manifest.tuned_on_private_data) else f"{NONE_RECORDED}; that proves nothing"


def _files(evidence: Evidence) -> str:
    rows = [[name, f"{entry.bytes:,}", entry.sha256] for name, entry in evidence.manifest.files.items()]
    return table(["File", "Bytes", "SHA-256"], rows)


def _plan(manifest: Any) -> str:
    read = {"read_from_data": dict(manifest.read_from_data)} if manifest.read_from_data else {}
    rows = [[words(name), value] for name, value in flat({**manifest.public, **read})]
    return table(["Public parameter", "Value"], rows)


def _spends(manifest: Any) -> str:
    if not manifest.is_private:
        return (
            "<p>This release is not differentially private: it spends no budget and promises no epsilon.</p>"
        )
    rows = [
        [
            str(spend.get("name", "")),
            str(spend.get("pays_for", "")),
            str(spend.get("mechanism", "")),
            str(spend.get("epsilon", "")),
            str(spend.get("rho", "")),
        ]
        for spend in manifest.spends
    ]
    return table(["Step", "Pays for", "Mechanism", "epsilon, if pure", "rho"], rows)


def _budget(evidence: Evidence) -> str:
    budget = evidence.budget
    names = (("Lifetime budget", "limit"), ("Spent by all releases", "spent"), ("Left", "left"))
    rows = [[label, f"{budget['currency']} = {budget[name]}"] for label, name in names]
    if budget.get("as_epsilon"):
        rows.append(["Read as epsilon", budget["as_epsilon"]])
    if budget.get("mixture"):
        rows.append(["Mixed units", budget["mixture"]])
    return table(["", f"Population {budget['population']}"], rows)


def _rows(evidence: Evidence) -> str:
    rows = [
        [
            row["at"],
            f"{row['what']} (this release)" if row["this"] else row["what"],
            row["cost"],
            row["status"],
        ]
        for row in evidence.rows
    ]
    return table(["When (UTC)", "What", evidence.budget["currency"], "Status"], rows)


def _chain(evidence: Evidence) -> str:
    if evidence.ledger_findings:
        listed = "".join(f"<li>{text(each)}</li>" for each in evidence.ledger_findings)
        return f"<p><strong>The ledger does not verify:</strong></p><ul>{listed}</ul>"
    return (
        f"<p>{evidence.ledger_rows:,} rows of the ledger were walked: chain and totals hold. Head "
        f"<code>{text(evidence.ledger_head)}</code></p>"
    )


def _audit(evidence: Evidence) -> str:
    if not evidence.manifest.is_private:
        return (
            "<p>There is no epsilon to audit. Before it was written, a verifier without shared code checked "
            "the promise on the raw data for every person and every start; found to hold: "
            f"{text(dict(evidence.manifest.guarantee).get('verified', 'not said'))}.</p>"
        )
    if not evidence.audit:
        case = case_of(evidence.manifest)
        name = "" if case is None else f" --mechanism {case.case}"
        return f"<p>No audit was attached. Run <code>shoal audit{text(name)}</code>.</p>"
    rows = [
        [
            str(each["mechanism"]),
            f"{each['claimed_epsilon']:.4g}",
            f"{each['lower_bound']:.3f}",
            f"{each['replay_held']} of {each['replay_pairs']}",
            "held" if each["noise_passed"] else "FAILED",
            f"{each['mutants_caught']} of {each['mutants_planted']}",
            "; ".join(each["problems"]) or "none",
        ]
        for each in evidence.audit
    ]
    head = ["Mechanism", "epsilon claimed", "epsilon proved from below", "Pairs held", "Noise"]
    return table([*head, "Planted bugs found", "Problems"], rows)


def _annex(evidence: Evidence) -> str:
    parts = ['<section class="annex"><h2>Annex for the owner alone: what adversaries gained</h2>']
    if not evidence.attacks:
        parts.append("<p>No attack was run on this release.</p>")
    for told in evidence.attacks or ():
        parts.append(f"<h3>{text(told.get('goal') or told.get('adversary', 'attack'))}</h3>")
        knows = f"<p class='note'>The adversary knows {text(told['knows'])}.</p>" if told.get("knows") else ""
        parts.append(knows + f"<p>{text(told.get('sentence', ''))}</p>")
        listed = "".join(f"<li>{text(line)}</li>" for line in told.get("summary", []))
        parts.append(f"<ul>{listed}</ul>" if listed else "")
    return "".join(parts) + "</section>"
