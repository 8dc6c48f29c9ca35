"""Frames that other software wrote, kept as text: ``tests/golden/<api>_v<version>_<client>.txt``.

A file has one frame per line, ``request`` or ``response`` and its bytes in hex, without the length
prefix; lines that start with # say where the frames come from. A client called
``kafka_python_encoder`` means that kafka-python's codec wrote made-up values: no broker was there.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ottla.protocol.apis import ApiKey

FOLDER = Path(__file__).resolve().parents[1] / "golden"
LINE_HEX_DIGITS = 96

_NAME = re.compile(r"(?P<api>[a-z0-9_]+?)_v(?P<version>\d+)_(?P<client>[a-z0-9_.]+)\.txt")


class GoldenFrame(NamedTuple):
    """One frame, header and body, as it was on the wire behind its length."""

    api_key: ApiKey
    api_version: int
    client: str
    side: str
    number: int
    frame: bytes

    def __str__(self) -> str:
        api = self.api_key.name.lower()
        return f"{api}_v{self.api_version}_{self.client}-{self.side}{self.number}"


@cache
def golden_frames() -> tuple[GoldenFrame, ...]:
    """Every frame there is, in a fixed order."""
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        match = _NAME.fullmatch(path.name)
        assert match is not None, f"{path.name} is not <api>_v<version>_<client>.txt"
        key, version = ApiKey[match["api"].upper()], int(match["version"])
        for number, (side, frame) in enumerate(_read(path.read_text())):
            found.append(GoldenFrame(key, version, match["client"], side, number, frame))
    return tuple(found)


def _read(text: str) -> list[tuple[str, bytes]]:
    """Long frames continue on indented lines."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    frames: list[tuple[str, str]] = []
    for line in lines:
        if line[0].isspace():
            side, digits = frames.pop()
            frames.append((side, digits + line.strip()))
        else:
            side, _, digits = line.partition(" ")
            assert side in ("request", "response"), line[:40]
            frames.append((side, digits.strip()))
    return [(side, bytes.fromhex(digits)) for side, digits in frames]


def golden_text(origin: str, frames: list[tuple[str, bytes]]) -> str:
    """The text of a file: where the frames come from, then (side, bytes) each."""
    lines = [f"# {origin}"]
    for side, frame in frames:
        digits = frame.hex()
        rows = [digits[at : at + LINE_HEX_DIGITS] for at in range(0, len(digits), LINE_HEX_DIGITS)]
        lines.append(f"{side} {rows[0]}")
        lines.extend(f"  {row}" for row in rows[1:])
    return "\n".join(lines) + "\n"
