"""shoal verify: check a release as its recipient."""

from __future__ import annotations

import json
from pathlib import Path

import click

EXAMPLE = """\b
Examples:
  shoal verify demo/release
  shoal verify release --sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  shoal verify release --allowed-signers signers --signer owner@example.org
"""


@click.command(epilog=EXAMPLE)
@click.argument("release", type=click.Path(path_type=Path))
@click.option("--sha256", help="SHA-256 of manifest.json, as the owner gave it to you.")
@click.option(
    "--allowed-signers",
    type=click.Path(path_type=Path),
    help="File of SSH keys whose signature counts (see ssh-keygen(1), ALLOWED SIGNERS).",
)
@click.option("--signer", help="Identity in that file that must have signed.  [default: any of them]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def verify(
    context: click.Context,
    release: Path,
    sha256: str | None = None,
    allowed_signers: Path | None = None,
    signer: str | None = None,
    as_json: bool = False,
) -> None:
    """Check the files of RELEASE against its manifest, and the manifest against its files.

    Needs no ledger. Prints the guarantee; exits with 6 if anything is missing, changed, not in the
    manifest, promises more than was spent, or is not what the owner published (--sha256, --allowed-signers).
    """
    from shoal.errors import GuaranteeError, PlanError
    from shoal.release.publish import sound_manifest
    from shoal.release.readme import in_words
    from shoal.release.verify import SIGNATURE, check_release, check_signature

    if signer is not None and allowed_signers is None:
        raise PlanError("signer-alone", "--signer needs --allowed-signers.", "Pass the file of their keys.")
    checked = check_release(release, sha256=sha256)
    signed_by = refused = None
    if allowed_signers is not None:
        try:
            signed_by = check_signature(release, allowed_signers, signer)
        except GuaranteeError as error:
            refused = error
    if as_json:
        manifest = checked.manifest
        promised = manifest is not None and not manifest.reproducible
        problems = [*checked.problems, *([refused.message] if refused else [])]
        answer = {
            "ok": not problems,
            "problems": problems,
            "manifest_sha256": checked.manifest_sha256,
            "sha256_matches": None if sha256 is None else sha256.strip().lower() == checked.manifest_sha256,
            "signed_by": signed_by,
            "seeded": manifest is not None and manifest.reproducible,
            "guarantee": dict(manifest.guarantee) if manifest and promised else None,
            "in_words": in_words(manifest) if manifest else None,
        }
        click.echo(json.dumps(answer, indent=2))
        context.exit(6 if problems else 0)
    manifest = sound_manifest(checked)
    if refused is not None:
        raise refused
    click.echo(in_words(manifest))
    click.echo(f"\n{len(manifest.files)} files as in the manifest, nothing else in the folder.")
    click.echo(f"manifest sha256 {checked.manifest_sha256}")
    if sha256 is not None:
        click.echo("The hash is the one given: this is the manifest that the owner published.")
    if signed_by is not None:
        click.echo(f"Signed by {signed_by}.")
    if sha256 is None and signed_by is None:
        click.echo("Compare this hash with the one the owner published: pass it with --sha256.")
        if (release / SIGNATURE).is_file():
            click.echo(f"{SIGNATURE} was not checked: pass the owner's key with --allowed-signers.")
