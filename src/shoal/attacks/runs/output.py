"""Findings of an attack on disk: for the owner's eyes, never inside a release."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.kinds.owner import open_owner_folder
from shoal.release.private import private_file
from shoal.release.staging import refuse_inside_release, unwritable


def write_findings(
    folder: Path, name: str, told: Mapping[str, Any], table: Mapping[str, Any] | None = None
) -> list[Path]:
    """NAME.json, and NAME.parquet where there is a table of columns; earlier ones are replaced."""
    refuse_inside_release(Path(folder))
    folder = open_owner_folder(folder)
    paths = [folder / f"{name}.json"]
    try:
        with private_file(paths[0], text=True) as file:
            file.write(json.dumps(told, indent=2) + "\n")
        if table is not None:
            paths.append(folder / f"{name}.parquet")
            columns = {key: pa.array(values) for key, values in table.items()}
            with private_file(paths[1]) as file:
                pq.write_table(pa.table(columns), file)
    except OSError as error:
        raise unwritable(folder, error) from error
    return paths


def plain(value: float) -> float | None:
    """JSON has no word for a figure that does not exist."""
    return float(value) if np.isfinite(value) else None
