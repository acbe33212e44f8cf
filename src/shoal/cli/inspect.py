"""`shoal inspect`: what is in a source, or in a release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from shoal.cli.source_options import source_from_options, source_options, trip_options
from shoal.events.schema import SourcePlan

EXAMPLE = """\b
Examples:
  shoal inspect events.csv.gz --time-zone Europe/Paris
  shoal inspect 'events/*.parquet' --sites sites.csv
  shoal inspect points.parquet --gap-minutes 5
  shoal inspect demo/release
"""

_NOT_RECORDED = (
    "These are exact numbers of private data, for the owner's eyes only. No ledger records this look; pass "
    "--population NAME to record it."
)


@click.command(epilog=EXAMPLE)
@source_options()
@trip_options
@click.option(
    "--sites", "sites_file", type=click.Path(), help="Public list of sites: events must name one of them."
)
@click.option("--site-id", help="Column with the sites' ids; `row` numbers them.")
@click.option("--site-lon", help="Column with the sites' longitudes (or x, with --sites-crs).")
@click.option("--site-lat", help="Column with the sites' latitudes (or y, with --sites-crs).")
@click.option("--sites-crs", help="Coordinate system of the sites where the file does not say.")
@click.option("--population", help="Population in whose ledger the look at its exact numbers is recorded.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def inspect(
    context: click.Context,
    source_options: SourcePlan,
    trip_rule,
    sites_file: str | None,
    population: str | None,
    as_json: bool,
    **sites_as: str | None,
) -> None:
    """Show schema and validity of SOURCE (events), or guarantee and contents of a release folder.

    For a source this is the owner's own look at raw data: nothing is spent and nothing may be published. With
    --population the ledger records it, and later manifests of the population say that there was a look.
    """
    paths = source_options.paths
    if len(paths) == 1 and (Path(paths[0]) / "manifest.json").is_file():
        from shoal.cli.verify import verify

        context.invoke(verify, release=Path(paths[0]), as_json=as_json)
        return
    from shoal.cli.inspect_source import print_source

    sites = None
    if sites_file is not None:
        from shoal.space.places import named_sites

        sites = named_sites(sites_file, **sites_as).ids
    if population is not None:
        from shoal.privacy.ledger import open_ledger

        open_ledger().look(population, "inspection: exact numbers of rows and users")  # before it is seen
    elif not _are_published(paths):
        click.echo(_NOT_RECORDED, err=as_json)
    print_source(source_from_options(source_options), sites, json=as_json, trip_rule=trip_rule)


def _are_published(paths: Sequence[str]) -> bool:
    """Whether all are files of releases, as their manifests list them; not of seeded or refuted ones."""
    from shoal.errors import GuaranteeError
    from shoal.release.manifest import MANIFEST, Manifest
    from shoal.release.verify import sha256_file

    for path in map(Path, paths):
        try:
            manifest = Manifest.from_json((path.parent / MANIFEST).read_text("utf-8"))
            listed = manifest.files.get(path.name)
            same = listed is not None and listed.sha256 == sha256_file(path)
        except (OSError, ValueError, GuaranteeError):
            return False
        if not same or manifest.reproducible or manifest.guarantee.get("verified") is False:
            return False
    return True
