"""`shoal evidence`: manifest, plan, accounting and audit of a release as one page for the file."""

from __future__ import annotations

from pathlib import Path

import click

EXAMPLE = """\b
Examples:
  shoal evidence release --out evidence.html
  shoal audit --quick --mechanism density-best --json > audit.json
  shoal evidence release --audit audit.json --out evidence.html
"""


@click.command(epilog=EXAMPLE)
@click.argument("release", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("evidence.html"),
    show_default=True,
    help="The page; not inside a release.",
)
@click.option("--audit", type=click.Path(path_type=Path), help="What `shoal audit --json` printed.")
@click.option(
    "--attack",
    "attacks",
    type=click.Path(path_type=Path),
    multiple=True,
    help="JSON of an attack: adds the owner's annex; may be repeated.",
)
def evidence(release: Path, out: Path, audit: Path | None, attacks: tuple[Path, ...]) -> None:
    """Write the evidence for RELEASE as one HTML page: to sign off, to print, to file.

    The folder is checked as its recipient would, the ledger is read and verified. Without --attack nothing on
    the page was computed on raw data.
    """
    from shoal.privacy.ledger import open_ledger
    from shoal.release.evidence import gather_evidence, write_evidence

    found = gather_evidence(release, open_ledger(), audit=audit, attacks=attacks or None)
    path = write_evidence(out, found)
    whose = "   (owner's eyes only: it has the annex)" if attacks else ""
    click.echo(f"evidence {path}{whose}")
    if found.ledger_findings:
        click.echo("The ledger does not verify; the page says where.", err=True)
