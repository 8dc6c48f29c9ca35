"""``python -m benchmarks.io_uring``: appends and answers by epoll and by io_uring, side by side.

The server is in C (append_server.c): what it takes is what a binding could give at best. It needs a
C compiler and liburing with its headers (Debian: liburing-dev). The runs of both ways alternate.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bare import BareServer, bare_server
from benchmarks.frames import batch_of, produce_frame
from benchmarks.harness import drive
from benchmarks.limits import ANSWER_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 5
SOURCE = Path(__file__).with_name("append_server.c")
# Bytes of a batch, requests, requests in flight per connection, connections.
SHAPES: dict[str, tuple[int, int, int, int]] = {
    "100 B, one at a time": (100, 60_000, 1, 16),
    "100 B, 8 in flight": (100, 200_000, 8, 16),
    "16 KiB, 5 in flight": (16 << 10, 40_000, 5, 4),
    "1 MiB, one at a time": (1 << 20, 1_000, 1, 4),
}


def compiled(folder: Path) -> Path:
    """Build the server. Raises SystemExit if that fails."""
    program = folder / "append_server"
    built = subprocess.run(
        ["cc", "-O2", "-o", program, SOURCE, "-luring"], capture_output=True, text=True, check=False
    )
    if built.returncode:
        raise SystemExit(f"install a C compiler and liburing-dev:\n{built.stderr}")
    return program


@contextmanager
def server_in_c(program: Path, way: str) -> Iterator[BareServer]:
    """Serve in a separate process."""
    command = [str(program), way, str(ANSWER_BYTES), str(program.with_suffix(".log"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield BareServer(int(process.stdout.readline()), process.pid)
        process.stdin.close()


def main() -> None:
    """Print the median CPU time of a request for each way and shape."""
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
        for shape, (size_bytes, requests, pipeline, connections) in SHAPES.items():
            frame = produce_frame("topic", 0, batch_of(size_bytes, min(size_bytes, 1000)))
            costs: dict[str, list[float]] = {}
            for _ in range(RUNS):
                for way, serving in {
                    "epoll in C": server_in_c(program, "epoll"),
                    "io_uring in C": server_in_c(program, "io_uring"),
                    "epoll in Python": bare_server("append", ANSWER_BYTES),
                }.items():
                    with serving as server:
                        load = drive(
                            server,
                            frame,
                            requests=requests,
                            pipeline=pipeline,
                            connections=connections,
                        )
                    costs.setdefault(way, []).append(load.broker_us_per_request)
            for way, runs in costs.items():
                sys.stdout.write(f"{shape:22} {way:16} {statistics.median(runs):8.2f} us\n")


if __name__ == "__main__":
    main()
