"""What this machine achieves without a broker: the limit reported with each measurement.

Two kinds: a file or a socket alone, and the least a server can do for the same load (bare.py).
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bare import bare_server
from benchmarks.harness import drive

if TYPE_CHECKING:
    from benchmarks.harness import Load

_RECYCLE_BYTES = 64 << 20
ANSWER_BYTES = 50


def append_bytes_per_second(block_bytes: int, total_bytes: int) -> float:
    """One core writing blocks to a file in the page cache, pages recycled as the broker's are."""
    block = os.urandom(min(block_bytes, 1 << 20)) * (block_bytes // min(block_bytes, 1 << 20))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        _write(descriptor, block, _RECYCLE_BYTES)
        started = time.process_time()
        written = 0
        while written < total_bytes:
            os.ftruncate(descriptor, 0)
            written += _write(descriptor, block, _RECYCLE_BYTES)
        seconds = time.process_time() - started
        os.close(descriptor)
    return written / seconds


def _write(descriptor: int, block: bytes, up_to: int) -> int:
    written = 0
    while written < up_to:
        written += os.write(descriptor, block)
    return written


def bare(
    kind: str, frame: bytes, *, size_bytes: int = ANSWER_BYTES, runs: int = 3, **shape: int
) -> Load:
    """The median load of a bare server of that kind, by its CPU time."""
    with bare_server(kind, size_bytes) as server:
        loads = [drive(server, frame, **shape) for _ in range(runs)]
    return sorted(loads, key=lambda load: load.broker_us_per_request)[runs // 2]
