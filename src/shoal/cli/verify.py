"""shoal verify: check a release as its recipient."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command(epilog="Example:  shoal verify demo/release")
@click.argument("release", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def verify(context: click.Context, release: Path, as_json: bool) -> None:
    """Check the files of RELEASE against its manifest, and the manifest's numbers against each other.

    Needs no ledger. Prints the guarantee; exits with 6 if anything is missing, changed, not in the
    manifest, or promises more than was spent.
    """
    from shoal.release.publish import sound_manifest
    from shoal.release.readme import in_words
    from shoal.release.verify import check_release

    checked = check_release(release)
    if as_json:
        manifest = checked.manifest
        promised = manifest is not None and not manifest.reproducible
        answer = {
            "ok": not checked.problems,
            "problems": list(checked.problems),
            "manifest_sha256": checked.manifest_sha256,
            "seeded": manifest is not None and manifest.reproducible,
            "guarantee": dict(manifest.guarantee) if manifest and promised else None,
            "in_words": in_words(manifest) if manifest else None,
        }
        click.echo(json.dumps(answer, indent=2))
        context.exit(6 if checked.problems else 0)
    manifest = sound_manifest(checked)
    click.echo(in_words(manifest))
    click.echo(f"\n{len(manifest.files)} files as in the manifest, nothing else in the folder.")
    click.echo(f"manifest sha256 {checked.manifest_sha256}")
    click.echo("Compare this hash with the one the owner published; manifests are not signed.")
