"""Options that attacks share."""

from __future__ import annotations

from pathlib import Path

import click

from shoal.cli.options import names, numbers

DEFENCE_OPTIONS = (
    click.option(
        "--defence",
        "defences",
        multiple=True,
        default=("best",),
        callback=names,
        metavar="NAME,...",
        help="Density methods to protect the counts with.  [default: best]",
    ),
    click.option(
        "--epsilon",
        "epsilons",
        default="1",
        callback=numbers,
        metavar="NUMBER,...",
        show_default=True,
        help="What the defences are set at.",
    ),
    click.option("--delta", type=float, help="Delta of defences that have one.  [default: 1e-6]"),
)
OUTPUT_OPTIONS = (
    click.option(
        "--out",
        type=click.Path(path_type=Path),
        default=Path("owner/attack"),
        show_default=True,
        help="Owner's folder.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)
