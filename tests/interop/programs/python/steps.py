"""The loop that every Python program runs: one step per line of standard input, one result each.

It must run wherever an old client runs, so it uses nothing but the standard library.
"""

from __future__ import annotations

import base64
import json
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Step = dict[str, Any]


def unpack(text: str | None) -> bytes | None:
    """Bytes travel as base64, and null as null."""
    return None if text is None else base64.b64decode(text)


def pack(data: bytes | None) -> str | None:
    """The opposite of `unpack`."""
    return None if data is None else base64.b64encode(data).decode()


def headers_of(record: Step) -> list[tuple[str, bytes | None]]:
    """The headers that a record is to be sent with."""
    return [(name, unpack(value)) for name, value in record["headers"]]


def result_record(
    offset: int,
    timestamp: int,
    content: tuple[bytes | None, bytes | None],
    headers: list[tuple[str, bytes | None]],
) -> Step:
    """A record that was read; ``content`` is its key and its value."""
    return {
        "offset": offset,
        "timestamp": timestamp,
        "key": pack(content[0]),
        "value": pack(content[1]),
        "headers": [[name, pack(value)] for name, value in headers],
    }


def run(steps: dict[str, Callable[[Step], dict[str, Any]]]) -> None:
    """Serve steps until standard input ends."""
    for line in sys.stdin:
        step = json.loads(line)
        try:
            result = steps[step["do"]](step)
        except Exception as error:
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
