"""Findings of an attack on disk: for the owner's eyes, never inside a release."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.flows.compare_report import comparison_folder
from shoal.release.staging import refuse_inside_release, unwritable


def write_findings(
    folder: Path, name: str, told: Mapping[str, Any], table: Mapping[str, Any] | None = None
) -> list[Path]:
    """NAME.json, and NAME.parquet where there is a table of columns; earlier ones are replaced."""
    refuse_inside_release(Path(folder))
    folder = comparison_folder(folder)
    paths = [folder / f"{name}.json"]
    try:
        private_file(paths[0])
        paths[0].write_text(json.dumps(told, indent=2) + "\n", "utf-8")
        if table is not None:
            paths.append(folder / f"{name}.parquet")
            private_file(paths[1])
            columns = {key: pa.array(values) for key, values in table.items()}
            pq.write_table(pa.table(columns), paths[1])
    except OSError as error:
        raise unwritable(folder, error) from error
    return paths


def plain(value: float) -> float | None:
    """JSON has no word for a figure that does not exist."""
    return float(value) if np.isfinite(value) else None


def private_file(path: Path) -> None:
    """An empty file that only its owner may read."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
