"""Check a release folder as its recipient: every hash, no file too many, a manifest that its files bear out.

Needs no ledger. That the manifest is the owner's is shown by its hash, which the owner gave to the recipient
(`sha256`), or by the owner's signature (`sign` and `check_signature` below).

The manifest is compared with what the files determine, without a hash from elsewhere:

    columns of every table, package and day             all kinds
    README.md                                           rendered again from the manifest
    zones, window, slots, decimals, grid, sizes         by kind: `problems` in its `published.py`

A hash in the same folder can be replaced together with what it protects. These checks reject a manifest that
was changed alone. Only a hash or a signature from the owner shows that manifest and files were changed alike.
docs/verify.md lists which values are determined, and a test changes each of them.

Signatures of a manifest in the format of `ssh-keygen -Y sign`, made and checked by that program.

manifest.json.sig    beside the manifest of a published copy; no part of the manifest, which it covers
namespace            shoal-release: a signature made for anything else is refused
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import GuaranteeError, OutputError, PlanError, ShoalError
from shoal.kinds.kind import KINDS
from shoal.release.manifest import MANIFEST, Manifest, case_problems, sha256_file
from shoal.release.price import price_problems
from shoal.release.readme import README, readme_problems
from shoal.space.clock import Clock

if TYPE_CHECKING:
    from shoal.space.places import Zones


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check of a folder found: its manifest if it can be read, and every problem."""

    manifest: Manifest | None
    manifest_sha256: str
    problems: tuple[str, ...]


def check_release(folder: Path, *, sha256: str | None = None, contents: bool = True) -> Checked:
    """Read everything in `folder` and compare it with its manifest, and the manifest with itself.

    `sha256` is the manifest's hash as the owner gave it. `contents`: not hashes and prices alone.
    """
    folder = Path(folder)
    if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", sha256.strip()):
        raise PlanError(
            "hash-malformed",
            "a SHA-256 hash has 64 hexadecimal digits.",
            "Pass the hash that the owner gave you; `shoal publish` prints it.",
        )
    if not folder.is_dir():
        raise OutputError("no-release", f"there is no release folder at {folder}.", "Check the path.")
    path = folder / MANIFEST
    if not os.path.lexists(path):
        raise OutputError(
            "not-a-release", f"{folder} is not a release folder: it has no {MANIFEST}.", "Check the path."
        )
    if path.is_symlink() or not path.is_file():
        return Checked(manifest=None, manifest_sha256="", problems=(f"{MANIFEST} is not a plain file.",))
    try:
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        manifest = Manifest.from_json(content.decode())
    except UnicodeDecodeError:
        return Checked(manifest=None, manifest_sha256=digest, problems=(f"{MANIFEST} is not text.",))
    except GuaranteeError as error:
        problems = (*_other_hash(digest, sha256), error.message)
        return Checked(manifest=None, manifest_sha256=digest, problems=problems)
    except OSError as error:
        raise _unreadable(folder, error) from error
    try:
        problems = _file_problems(folder, manifest) + price_problems(manifest) + case_problems(manifest)
        if contents and not problems:
            problems = content_problems(folder, manifest)
    except OSError as error:
        raise _unreadable(folder, error) from error
    return Checked(
        manifest=manifest, manifest_sha256=digest, problems=(*_other_hash(digest, sha256), *problems)
    )


def _other_hash(digest: str, expected: str | None) -> tuple[str, ...]:
    if expected is None or expected.strip().lower() == digest:
        return ()
    return (
        f"this is not the release that the owner published: the SHA-256 of {MANIFEST} is {digest}, the hash "
        f"given is {expected.strip().lower()}.",
    )


def _file_problems(folder: Path, manifest: Manifest) -> list[str]:
    problems = []
    for name, entry in manifest.files.items():
        if not _is_inside(name):
            problems.append(f"{name!r} is not a name of a file in the folder.")
            continue
        path = folder / name
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name} is missing.")
        elif path.stat().st_size != entry.bytes:
            problems.append(f"{name} has {path.stat().st_size} bytes; the manifest says {entry.bytes}.")
        elif sha256_file(path) != entry.sha256:
            problems.append(f"{name} was changed: its hash is not the one in the manifest.")
    return problems + _extra(folder, set(manifest.files))


def _extra(folder: Path, named: set[str]) -> list[str]:
    """Everything in the folder that the manifest does not name, also hidden, linked and empty."""
    folders = {str(parent) for name in named for parent in PurePosixPath(name).parents}
    problems = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        linked = path.is_symlink()
        known = name in folders if path.is_dir() and not linked else name in named | {MANIFEST}
        if not known and (linked or path.is_dir() or name != SIGNATURE):
            problems.append(f"{name if name.isprintable() else ascii(name)} is not in the manifest.")
    return problems


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    plain = name == str(path) and not path.is_absolute() and path.parts and "\\" not in name
    return bool(plain) and ".." not in path.parts and name != MANIFEST


def _unreadable(folder: Path, error: OSError) -> OutputError:
    return OutputError(
        "unreadable-folder", f"{folder} cannot be read ({error.strerror}).", "Check permissions."
    )


UNREADABLE = (ShoalError, OSError, pa.ArrowException, ValueError, TypeError, LookupError, AttributeError)
SLACK_SLOTS = 200  # of clock changes, before the slots of a window are worked out
ENOUGH = 100  # different numbers, one of which uses the last decimal unless there is none
FIRST_DAY = date(2020, 1, 1)  # no release is older
BATCH = 1 << 18
KNOWN = {
    "guarantee": {"kind", "epsilon", "delta", "law", "rho", "tau", "unit", "neighbours", "promise_version"}
    | {"adversary", "verified", "limits"},
    "package": {"name", "version"},
    "input": {"shape", "columns", "trips_with_noise", "trips_declared", "synthetic_trips"}
    | {"users_with_noise", "synthetic_people", "peaks", "second_group_with_noise"}
    | {f"visits_with_noise{end}" for end in ("", "_low", "_high")},
}
CLIP = re.compile(r"clip_of(_second)*_[a-z]+_by_noise")  # of a density, where it follows from noisy numbers


def content_problems(folder: Path, manifest: Manifest) -> list[str]:
    """Where the manifest disagrees with its files; the files are those of the manifest already."""
    checks = [_about(manifest), _tables(folder, manifest)]
    if README in manifest.files:
        checks.append(readme_problems((folder / README).read_text("utf-8"), manifest))
    kinds = [kind for kind in KINDS.values() if kind.main_file in manifest.columns]
    checks += [kind.problems(folder, manifest) for kind in kinds]
    problems = []
    for check in checks:
        try:
            problems += check
        except UNREADABLE:
            problems.append("a value that the files determine is missing, of another kind, or out of range.")
    return list(dict.fromkeys(problems))


def _about(manifest: Manifest) -> Iterator[str]:
    for name, known in KNOWN.items():
        if more := {each for each in set(getattr(manifest, name)) - known if not CLIP.fullmatch(each)}:
            yield f"its {name} has a field that no release has: {min(more)!r:.40}."
    for name in ("unit", "promise", "population", "licence"):
        if (text := getattr(manifest, name)) != " ".join(text.split()):
            yield f"its {name} has spaces that no release writes."
    package = manifest.package
    version = package.get("version", "")
    if package.get("name") != "shoal" or not re.fullmatch(r"\d+\.\d+\.\d+[a-z0-9.+-]*", version):
        yield "its package is not a version of shoal."
    for name in ("trips_with_noise", "users_with_noise"):
        if type(manifest.input.get(name, 0)) not in (int, float):
            yield f"its {name} is not a number."
    day = date.fromisoformat(manifest.created)
    if day.isoformat() != manifest.created or not FIRST_DAY <= day <= _tomorrow():
        yield "the day it was created is no day on which it can have been."
    neighbours = f"add or remove one {manifest.guarantee.get('unit')}"
    if manifest.is_private and manifest.guarantee.get("neighbours") != neighbours:
        yield "its neighbours are not those that add or remove one unit."


def _tomorrow() -> date:
    return datetime.now(UTC).date() + timedelta(days=1)


def _tables(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Every file but the README has its columns described, and has these columns."""
    if manifest.columns and set(manifest.files) - {README} != set(manifest.columns):
        yield "the files whose columns it describes are not the files it lists."
        return
    for name, meanings in manifest.columns.items():
        names = _column_names(folder / name)
        if names is not None and names != list(meanings):
            yield f"the columns of {name} are not those that the manifest describes."


def _column_names(path: Path) -> list[str] | None:
    if path.suffix == ".parquet":
        return pq.read_schema(path).names
    if path.suffix in (".csv", ".jsonl"):
        with path.open(encoding="utf-8", newline="") as file:
            first = file.readline(1 << 20)
        return next(csv.reader([first])) if path.suffix == ".csv" else list(json.loads(first))
    return None


def zone_problems(stated: Mapping[str, Any], zones: Zones, *, hashed: bool = True) -> Iterator[str]:
    if stated["count"] != zones.count or (hashed and stated["sha256"] != zones.digest()):
        yield "the count or the hash of the zones is not that of the zones in the folder."


def published_zones(path: Path) -> Zones:
    from shoal.space.places import read_zones

    return read_zones(path, on_overlap="allow", holes="allow")


def clock_of(public: Mapping[str, Any], slots: int) -> Iterator[str]:
    """Yields what is wrong and returns the clock of the window, if its slots are as many as stated."""
    start, end = (datetime.fromisoformat(public["window"][name]) for name in ("start", "end"))
    step = timedelta(minutes=count_of(public["slot_minutes"]))
    written = {"start": start.isoformat(), "end": end.isoformat()}
    if dict(public["window"]) == written and step and abs((end - start) / step - slots) <= SLACK_SLOTS:
        clock = Clock(
            start=start, end=end, time_zone=public["time_zone"], slot_minutes=public["slot_minutes"]
        )
        if clock.slots == slots:
            return clock
    yield "the window does not have the stated number of slots of that length."
    return None


def repeated_values(manifest: Manifest) -> Iterator[str]:
    """Values that a manifest states twice: parameters of the mechanism, and shares of the spends."""
    public, spends = manifest.public, {spend["name"]: spend for spend in manifest.spends}
    for name, value in public["mechanism"].items():
        law, _, step = name.partition("_")
        known = public.get(name)
        if name in public and value != (known["count"] if isinstance(known, Mapping) else known):
            yield f"{name} of the mechanism is not that of the release."
        if law in ("epsilon", "rho") and step in spends and value != spends[step].get(law):
            yield f"{name} of the mechanism is not what was spent on it."
    if manifest.input.get("trips_declared", public.get("trips_declared")) != public.get("trips_declared"):
        yield "the declared number of trips is stated twice, and differs."


def columns_of(path: Path) -> list[tuple[str, pa.ChunkedArray]]:
    table = pq.read_table(path)
    return list(zip(table.column_names, table.columns, strict=True))


def boxes_inside(boxes: Mapping[str, np.ndarray], last_x: int | None, last_y: int | None) -> bool:
    """Sides in order, and from 0 to the last column and row where these are known."""
    inside = all((boxes[f"{axis}0"] <= boxes[f"{axis}1"]).all() for axis in "txy" if f"{axis}0" in boxes)
    for axis, last in (("x", last_x), ("y", last_y)):
        if last is not None:
            inside &= bool((boxes[f"{axis}0"] >= 0).all() and (boxes[f"{axis}1"] <= last).all())
    return inside


def count_of(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a count")
    return value


class Decimals:
    """Whether numbers are rounded to a number of decimals, and not to fewer."""

    def __init__(self, decimals: int) -> None:
        self.decimals, self.finer, self.last_used = decimals, False, False
        self.numbers: set[float] = set()  # different ones, up to ENOUGH: a flat map repeats a single number

    def see(self, *arrays: np.ndarray) -> None:
        for array in arrays:
            scaled = np.abs(array[array != 0]) * 10.0**self.decimals
            if len(self.numbers) < ENOUGH:
                self.numbers.update(np.unique(np.rint(scaled))[:ENOUGH].tolist())
            self.finer |= bool((np.abs(scaled - np.rint(scaled)) > 1e-6 + 1e-12 * scaled).any())
            self.last_used |= bool((np.rint(scaled) % 10 != 0).any())

    def problems(self, name: str) -> Iterator[str]:
        coarser = self.decimals > 0 and len(self.numbers) >= ENOUGH and not self.last_used
        if self.finer or coarser:
            yield f"{name} is not rounded to the stated number of decimals."


SIGNATURE = f"{MANIFEST}.sig"
NAMESPACE = "shoal-release"
LARGEST = 1 << 16  # bytes of a signature
_SECONDS = 60


def sign(manifest: bytes, key: Path) -> bytes:
    """The signature of a manifest by an SSH key: its file, or the .pub file of a key that an agent holds."""
    _check_file(key, "key-missing", "key")
    # No time limit: the program may ask for a passphrase at the terminal.
    answer = _run(["-Y", "sign", "-q", "-f", str(key), "-n", NAMESPACE], manifest, seconds=None)
    if answer.returncode != 0 or b"BEGIN SSH SIGNATURE" not in answer.stdout:
        raise OutputError(
            "not-signed",
            f"ssh-keygen did not sign with {key}: {_reason(answer)}",
            "Check the key and its passphrase; a key in an agent is named by its .pub file.",
        )
    return answer.stdout


def check_signature(folder: Path, allowed_signers: Path, signer: str | None = None) -> str:
    """The identity among `allowed_signers` that signed the manifest in `folder`."""
    _check_file(allowed_signers, "signers-missing", "file of allowed signers")
    path = folder / SIGNATURE
    if path.is_symlink() or not path.is_file():
        raise GuaranteeError(
            "not-signed", f"the release has no {SIGNATURE}.", "Ask the owner, or compare its hash (--sha256)."
        )
    if path.stat().st_size > LARGEST:
        raise _refused("it is too large to be one")
    manifest = (folder / MANIFEST).read_bytes()
    signers = str(allowed_signers)
    names = [signer] if signer is not None else _principals(path, signers)
    reason = "its key is not among the allowed signers"
    for name in names:
        arguments = ["-Y", "verify", "-f", signers, "-I", name, "-n", NAMESPACE, "-s", str(path)]
        answer = _run(arguments, manifest)
        if answer.returncode == 0:
            return name
        reason = _reason(answer)
    raise _refused(reason)


def _principals(path: Path, signers: str) -> list[str]:
    answer = _run(["-Y", "find-principals", "-s", str(path), "-f", signers], b"")
    return answer.stdout.decode(errors="replace").splitlines() if answer.returncode == 0 else []


def _run(arguments: list[str], text: bytes, seconds: int | None = _SECONDS) -> subprocess.CompletedProcess:
    quiet = {**os.environ, "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"}
    try:
        return subprocess.run(
            ["ssh-keygen", *arguments],
            input=text,
            capture_output=True,
            env=quiet,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise OutputError(
            "no-ssh-keygen",
            "signatures need the program ssh-keygen, which is not on the PATH.",
            "Install OpenSSH (openssh-client on Debian), version 8.2 or newer.",
        ) from None
    except subprocess.TimeoutExpired:
        raise OutputError("not-checked", f"ssh-keygen did not answer within {_SECONDS} s.") from None


def _reason(answer: subprocess.CompletedProcess) -> str:
    lines = (answer.stderr or answer.stdout).decode(errors="replace").split("\n")
    shown = "; ".join(line.strip() for line in lines if line.strip())[:300]
    return "".join(letter if letter.isprintable() else "?" for letter in shown) or "it gave no reason"


def _check_file(path: Path, code: str, what: str) -> None:
    if not Path(path).is_file():
        raise PlanError(code, f"there is no {what} at {path}.", "Check the path.")


def _refused(reason: str) -> GuaranteeError:
    reason = reason.rstrip(".")
    return GuaranteeError(
        "signature-refused",
        f"{SIGNATURE} is not a valid signature of this manifest by an allowed signer: {reason.rstrip('.')}.",
        "Get the release again from its owner, or check the file of allowed signers.",
    )
