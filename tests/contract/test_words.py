"""Retired words stay retired: private words for terms of the field, and sentences without a subject.

docs/glossary.md has the terms. A package may have as many retired words as `ALLOWED` says, a number that only
falls. `python -m tests.contract.test_words [PACKAGE ...]` lists the places and prints today's numbers.
"""

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

from tests.loops import for_each

ROOT = Path(__file__).parents[2]

WORDS = {  # pattern in running text: the term to use
    r"chances?": "probability, or: at random",
    r"doors?": "query interface",
    r"waves?": "Fourier components",
    r"(?<!of )courses?": "profile",
    r"bought|buys?|buying": "measured, estimated with part of the budget",
    r"(?<![\"'`])scatters?": "residual variance, variance",
    r"rooms?": "package, module, view of the page",
    r"likeliest|likely\.py": "most probable; shrinkage",
    r"rising (curve|line)": "isotonic regression",
    r"neighbours of (methods|the trajectory)|sound neighbours": "baselines",
    r"sound methods": "provably private methods",
    r"made-up": "synthetic, simulated, random",
    r"stretch(es)?( of time)?": "period",
    r"public guess(es)?": "prior",
    r"surprising|unsurprising": "above the threshold",
    r"(people|records) (that |who )?look alike|told apart": "distinguishable, records that fit",
}
SENTENCES = {  # pattern in running text: what to write instead
    r"(?:^|[.:;] |\n\s*\n)Who(?:ever)? (?![^.;:]*\?)": "a sentence with a subject instead of `Who`",
    r"\b[Ww]hoever\b": "a person, user or recipient",
    r"(?:^|\. |\n\s*\n)Of (?!course)": "a sentence that does not start with `Of`",
}
NAMES = {"told", "said", "kept", "found", "made", "asked", "held", "bought", "seen"}
NAMES |= {"likely", "rising", "scatter", "chance", "door", "waves", "course", "room"}
TEXT = {rf"\b(?:{pattern})\b": term for pattern, term in WORDS.items()} | SENTENCES

ALLOWED: dict[str, int] = {  # a package that is not listed has none
    "anonymise": 4,
    "events": 9,
    "privacy": 1,  # the sentence of earlier manifests
    "release": 2,  # sentences of READMEs, which `shoal verify` renders again
    "space": 5,
}


def prose(page: Path) -> str:
    """The text of a page without code, and of the changelog only what is not yet released."""
    text = page.read_text("utf-8")
    if page.name == "CHANGELOG.md":
        text = text.split("\n## ")[1]
    return re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", "``", text, flags=re.S)


def in_text(text: str) -> list[str]:
    return [
        f"{' '.join(match[0].split())!r}: {term}"
        for pattern, term in TEXT.items()
        for match in re.finditer(pattern, text, re.I if pattern.startswith(r"\b(?:") else 0)
    ]


def in_code(source: str) -> list[str]:
    """Retired words in docstrings, comments and messages, and retired names of values."""
    found_words = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            found_words += in_text(token.string.lstrip("# "))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            found_words += in_text(node.value)
        found_words += [
            f"{name!r}: a name that says what the value is" for name in named(node) if name in NAMES
        ]
    return found_words


def named(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.arg):
        return [node.arg]
    return [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []


def packages() -> dict[str, list[Path]]:
    """Files of the documentation, of the help texts, and of the code by package (`kinds`, `stages`, ...)."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    pages += [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    files = {"docs": pages, "help": [ROOT / "tests" / "golden" / "now" / "help.txt"]}
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix in (".py", ".js", ".html"):
            top, *inner = path.relative_to(ROOT / "src").parts
            files.setdefault(top if top != "shoal" or len(inner) == 1 else inner[0], []).append(path)
    return files


def places(path: Path) -> list[str]:
    if path.suffix == ".md":
        return in_text(prose(path))
    return (in_code if path.suffix == ".py" else in_text)(path.read_text("utf-8"))


@for_each("package", lambda: packages().keys())
def test_no_package_has_more_retired_words_than_allowed(package):
    retired = [f"{path.relative_to(ROOT)}: {place}" for path in packages()[package] for place in places(path)]
    assert len(retired) <= ALLOWED.get(package, 0), "\n".join(retired)


def test_retired_words_are_noticed_and_others_are_not():
    assert len(in_text("By chance. Who came late is counted. Of all users the first.")) == 3
    assert in_text("Of course it scales, as the person who asked knows. Who is counted?") == []
    assert len(in_code('def likely(told, user):\n    """Of all: the door."""\n    said = 1  # bought\n')) == 6
    assert in_code("profile, told_rates = 1, 2\nresult.found = told\n") == []


if __name__ == "__main__":
    counts = {}
    for name, files in packages().items():
        listed = [f"{path.relative_to(ROOT)}: {place}" for path in files for place in places(path)]
        counts[name] = len(listed)
        if name in sys.argv[1:]:
            print("\n".join(listed))
    print("ALLOWED =", {name: count for name, count in counts.items() if count})
