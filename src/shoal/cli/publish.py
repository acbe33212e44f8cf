"""What is done with a committed release: `shoal publish`, `shoal verify`, `shoal evidence`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from shoal.cli.main import JSON, out_option


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
@JSON
def publish(release: Path, dest: Path, sign_with: Path | None, as_json: bool) -> None:
    """Copy RELEASE to DEST, which must not exist.

    The ledger must hold the commit of exactly this manifest, and every file must match it. Only the
    files of the manifest are copied, readable by everybody.
    """
    from shoal.privacy.ledger import open_ledger
    from shoal.release import publish as publishing
    from shoal.release.verify import SIGNATURE

    ledger = open_ledger()
    checked = publishing.publish(ledger, release, dest, sign_with=sign_with)
    manifest, signed = publishing.sound_manifest(checked), sign_with is not None
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


EVIDENCE_EXAMPLE = """\b
Examples:
  shoal evidence release --out evidence.html
  shoal audit --quick --mechanism density-best --json > audit.json
  shoal evidence release --audit audit.json --out evidence.html
"""


@click.command(epilog=EVIDENCE_EXAMPLE)
@click.argument("release", type=click.Path(path_type=Path))
@out_option("evidence.html", "The page; not inside a release.")
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

    gathered = gather_evidence(release, open_ledger(), audit=audit, attacks=attacks or None)
    path = write_evidence(out, gathered)
    whose = "   (owner's eyes only: it has the annex)" if attacks else ""
    click.echo(f"evidence {path}{whose}")
    if gathered.ledger_findings:
        click.echo("The ledger does not verify; the page says where.", err=True)


VERIFY_EXAMPLE = """\b
Examples:
  shoal verify demo/release
  shoal verify release --sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  shoal verify release --allowed-signers signers --signer owner@example.org
"""


@click.command(epilog=VERIFY_EXAMPLE)
@click.argument("release", type=click.Path(path_type=Path))
@click.option("--sha256", help="SHA-256 of manifest.json, as the owner gave it to you.")
@click.option(
    "--allowed-signers",
    type=click.Path(path_type=Path),
    help="File of SSH keys whose signature counts (see ssh-keygen(1), ALLOWED SIGNERS).",
)
@click.option("--signer", help="Identity in that file that must have signed.  [default: any of them]")
@JSON
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
    from shoal.cli.printing import print_verdict
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
    if manifest.verdict:
        print_verdict(manifest.verdict)
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
