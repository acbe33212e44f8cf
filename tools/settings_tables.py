"""Writes the tables of settings in docs/plan.md anew, from the plans themselves.

    python tools/settings_tables.py

A table stands between `<!-- settings: KIND -->` and `<!-- end of settings -->`.
"""

import re
from pathlib import Path

from shoal.kinds import KINDS
from shoal.kinds.setting_forms import table_of

PAGE = Path(__file__).parents[1] / "docs" / "plan.md"
TABLE = re.compile(r"(<!-- settings: (\w+) -->\n).*?(<!-- end of settings -->)", re.S)


def with_tables(text: str) -> str:
    """The page with the tables of today's settings."""
    return TABLE.sub(lambda place: f"{place[1]}{table_of(KINDS[place[2]].plan)}\n{place[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text("utf-8")), "utf-8")
