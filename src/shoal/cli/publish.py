"""shoal publish: copy a committed release to its public place."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(epilog="Example:  SHOAL_LEDGER=demo/ledger.sqlite shoal publish demo/release public")
@click.argument("release", type=click.Path(path_type=Path))
@click.argument("dest", type=click.Path(path_type=Path))
@click.option(
    "--sign",
    "sign_with",
    metavar="KEY",
    type=click.Path(path_type=Path),
    help="SSH key that signs the manifest of the copy, for `shoal verify --allowed-signers`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def publish(release: Path, dest: Path, sign_with: Path | None, as_json: bool) -> None:
    """Copy RELEASE to DEST, which must not exist.

    The ledger must hold the commit of exactly this manifest, and every file must match it. Only the
    files of the manifest are copied, readable by everybody.
    """
    from shoal.privacy.ledger import open_ledger
    from shoal.release import publish as room
    from shoal.release.verify import SIGNATURE

    ledger = open_ledger()
    checked = room.publish(ledger, release, dest, sign_with=sign_with)
    manifest, signed = room.sound_manifest(checked), sign_with is not None
    files = len(manifest.files) + 1 + signed
    if as_json:
        answer = {"published": str(dest), "files": files, "manifest_sha256": checked.manifest_sha256}
        click.echo(json.dumps({**answer, "signed": signed}))
        return
    newer = ledger.state().population(manifest.population).superseded.get(checked.manifest_sha256)
    if newer is not None:
        click.echo(f"Note: the ledger says that release {newer} replaces this one.")
    click.echo(f"Published {files} files to {dest}.")
    click.echo(manifest.promise)
    click.echo(f"manifest sha256 {checked.manifest_sha256}")
    click.echo(
        "Give this hash to recipients by another way than the files; they check it with "
        f"`shoal verify FOLDER --sha256 {checked.manifest_sha256}`."
    )
    if signed:
        click.echo(
            f"Signed in {SIGNATURE}; recipients check it with `shoal verify FOLDER --allowed-signers FILE`."
        )
