"""Lines and files of Python by package, against the figures recorded in sizes.toml.

python -m tests.sizes            the table; fails where a package has grown by more than 3 %
python -m tests.sizes --record   record today's figures; the commit says why they grow
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests" / "sizes.toml"
ROOTS = ("src/shoal", "src/shoal_baselines", "tests")
GROWTH = 0.03
MOST_LINES = 450  # of one file


def measured() -> dict[str, tuple[int, int]]:
    """Lines and files of every root and of every package in it."""
    sizes: dict[str, tuple[int, int]] = {}
    for root in ROOTS:
        for path in sorted((ROOT / root).rglob("*.py")):
            package = path.relative_to(ROOT / root).parts[0]
            for name in (root, f"{root}/{package}") if package != path.name else (root,):
                lines, files = sizes.get(name, (0, 0))
                sizes[name] = (lines + length(path), files + 1)
    return dict(sorted(sizes.items()))


def length(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def problems(sizes: dict[str, tuple[int, int]], recorded: dict[str, list[int]]) -> list[str]:
    """Packages that are more than 3 % above the recorded figure, or have none."""
    found = []
    for name, size in sizes.items():
        if name not in recorded:
            found.append(f"{name} has no recorded size")
            continue
        for what, now, then in zip(("lines", "files"), size, recorded[name], strict=True):
            if now > then * (1 + GROWTH):
                found.append(f"{name} has {now:,} {what}, recorded are {then:,}")
    return found


def too_long() -> list[str]:
    """Files to be questioned; they fail nothing."""
    paths = [path for root in ROOTS for path in (ROOT / root).rglob("*.py")]
    long = [(path.relative_to(ROOT), length(path)) for path in sorted(paths)]
    return [f"{path} has {lines} lines, more than {MOST_LINES}" for path, lines in long if lines > MOST_LINES]


def main() -> None:
    sizes = measured()
    if "--record" in sys.argv:
        lines = [f'"{name}" = [{lines}, {files}]' for name, (lines, files) in sizes.items()]
        RECORDED.write_text("# Lines and files; `python -m tests.sizes --record`\n" + "\n".join(lines) + "\n")
    recorded = tomllib.loads(RECORDED.read_text("utf-8"))
    for name, (lines, files) in sizes.items():
        print(f"{name:<32} {lines:>7,} lines {files:>5} files   recorded {recorded.get(name, [0])[0]:>7,}")
    print("\n".join(too_long()))
    found = problems(sizes, recorded)
    if found:
        sys.exit("\n".join([*found, "Make it smaller, or record the new size in the commit that needs it."]))


if __name__ == "__main__":
    main()
