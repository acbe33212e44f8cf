"""shoal publish: copy a committed release to its public place."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(epilog="Example:  SHOAL_LEDGER=demo/ledger.sqlite shoal publish demo/release public")
@click.argument("release", type=click.Path(path_type=Path))
@click.argument("dest", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def publish(release: Path, dest: Path, as_json: bool) -> None:
    """Copy RELEASE to DEST, which must not exist.

    The ledger must hold the commit of exactly this manifest, and every file must match it. Only the
    files of the manifest are copied, readable by everybody.
    """
    from shoal.privacy.ledger import open_ledger
    from shoal.release import publish as room

    manifest = room.publish(open_ledger(), release, dest)
    if as_json:
        click.echo(json.dumps({"published": str(dest), "files": len(manifest.files) + 1}))
    else:
        click.echo(f"Published {len(manifest.files) + 1} files to {dest}.")
        click.echo(manifest.promise)
