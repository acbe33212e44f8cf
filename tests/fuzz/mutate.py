"""Structured mutations of bytes, of JSON values and of text; and a folder in memory to write inputs to."""

import atexit
import copy
import functools
import json
import os
import random
import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.errors import ShoalError

NUMBERS = (0, 1, -1, 2, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1)
TEXTS = (
    *("", " ", "a", "\0", "\ud800", "\u202e", "\x1b[31m", "=1+1", "NaN", "inf", "-0", "9" * 40, "1e999"),
    *("a" * 3000, "../x", "/", "EPSG:4326", "IAU_2015:30100", "2026-03-02", "Europe/Paris", "None", "null"),
    *("{}", "\u00e9", "row"),
)
JUNK = (
    *(None, True, False, 0, 1, -1, 3, 0.5, -0.0, 1e308, -1e308, 1e-308, float("nan"), float("inf"), 10**30),
    *(2**53 + 1, 10**308, [], {}, [None], [[]], {"a": 1}, [1, 2], [0, 0, 1, 1], {"type": "Point"}),
)


def no_internal_error(read: Callable[[], Any]) -> None:
    """A reader gives a value or a ShoalError; whatever else it raises is a failure."""
    try:
        read()
    except ShoalError as error:
        str(error).encode()  # an error that cannot be printed is none


@functools.cache
def place() -> Path:
    """A folder of this process, in memory where there is one."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = Path(tempfile.mkdtemp(prefix="shoal-fuzz-", dir=memory))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def written(name: str, content: bytes) -> Path:
    path = place() / name
    path.write_bytes(content)
    return path


def bytes_of(rng: random.Random, content: bytes, most: int = 4) -> bytes:
    """A few damages: bits, numbers, cuts, copies, insertions."""
    data = bytearray(content)
    for _ in range(rng.randint(1, most)):
        at = rng.randrange(len(data) + 1)
        size = min(rng.choice((1, 2, 4, 8, 16, 64, 300)), max(len(data) - at, 0))
        how = rng.randrange(8)
        if how == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1 and at < len(data):
            data[at] = rng.randrange(256)
        elif how == 2:
            kind = rng.choice(("<i", ">i", "<q", ">q", "<h", "<d", ">d"))
            value = rng.choice(NUMBERS)
            packed = struct.pack(kind, float(value)) if kind[1] == "d" else _packed(kind, value)
            data[at : at + len(packed)] = packed
        elif how == 3:
            del data[at : at + size]
        elif how == 4:
            data[at:at] = data[at : at + size] * rng.randint(1, 20)
        elif how == 5:
            data[at:at] = rng.randbytes(rng.randint(1, 8))
        elif how == 6:
            source = rng.randrange(len(data) + 1)
            data[at : at + size] = data[source : source + size]
        elif rng.random() < 0.3:
            del data[at:]
        if not data:
            data = bytearray(b"\0")
    return bytes(data)


def _packed(kind: str, value: int) -> bytes:
    size = struct.calcsize(kind)
    return (value % (1 << (8 * size))).to_bytes(size, "little" if kind[0] == "<" else "big")


def json_of(rng: random.Random, value: Any, most: int = 4) -> Any:
    """A few places of a JSON value replaced, removed, renamed, copied or nested."""
    value = copy.deepcopy(value)
    for _ in range(rng.randint(1, most)):
        parent, key = _somewhere(rng, value)
        if parent is None:
            return junk(rng)
        how = rng.randrange(7)
        if how <= 2:
            parent[key] = junk(rng)
        elif how == 3:
            del parent[key]
        elif how == 4 and isinstance(parent, dict):
            parent[rng.choice(TEXTS)] = parent.pop(key)
        elif how == 4:
            parent.insert(key, copy.deepcopy(parent[key]))
        elif how == 5:
            parent[key] = [parent[key]] if rng.random() < 0.5 else {"a": parent[key]}
        else:
            other, place_ = _somewhere(rng, value)
            if other is not None:
                parent[key] = copy.deepcopy(other[place_])
    return value


def _somewhere(rng: random.Random, value: Any) -> tuple[Any, Any]:
    parent, key = None, None
    while isinstance(value, dict | list) and value:
        parent, key = value, rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        value = parent[key]
        if rng.random() < 0.25:
            break
    return parent, key


def junk(rng: random.Random) -> Any:
    return rng.choice(TEXTS) if rng.random() < 0.4 else copy.deepcopy(rng.choice(JUNK))


def as_json(rng: random.Random, value: Any) -> bytes:
    """As text, now and then damaged as text; surrogates as raw bytes or as escapes."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    content = text.encode("utf-8", "surrogatepass")
    return bytes_of(rng, content, 2) if rng.random() < 0.15 else content
