"""A mutation fuzzer for frames: golden frames with bytes flipped, cut, moved and made up.

Every frame that comes out is read the way the network reads it. The only permitted outcomes are a
message and ``RemoteProtocolError``, within bounded time and memory. A run is repeated by its seed:
``python -m tests.protocol.fuzzing SEED FRAMES``.
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ottla.protocol.apis import API
from ottla.protocol.compile import decoder
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.headers import decode_request_header, decode_response_header
from ottla.protocol.ports import Buffer
from ottla.wire.messages import request_of, response_of
from tests.support.golden import GoldenFrame, golden_frames

Decode = Callable[[Buffer, int], tuple[Any, int]]

MUTATIONS_MAX = 4
FRAME_BYTES_MAX = 4096
# One frame in so many is read under tracemalloc, which makes it several times slower.
MEMORY_SAMPLE = 50
PEAK_BYTES_MAX = 64 * 1024
PEAK_TRIALS = 5
PEAK_BYTES_PER_BYTE_MAX = 150
# A frame of a few hundred bytes takes microseconds; the rest is for a busy machine.
SLOWEST_MS_MAX = 1000.0
INTERESTING = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
INTERESTING_RUNS = (
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff",
    b"\xff\xfe",
    b"\xff" * 12,
)


@dataclass(slots=True)
class FuzzReport:
    """The results of one run."""

    seed: int
    executions: int = 0
    accepted: int = 0
    refused: int = 0
    slowest_ms: float = 0.0
    peak_bytes: int = 0
    versions: set[tuple[int, int]] = field(default_factory=set)


class FrameFuzzer:
    """Draws frames from one seed and reads them."""

    def __init__(self, seed: int, corpus: tuple[GoldenFrame, ...] | None = None) -> None:
        self.random = random.Random(seed)
        self.corpus = corpus or golden_frames()
        self.report = FuzzReport(seed)
        # Compiled before anything is measured.
        self.decoders: dict[tuple[str, int, int], Decode] = {
            (side, spec.key, version): decoder(declared, version)
            for spec in API.values()
            for side, declared in (
                ("request", request_of(spec.key)),
                ("response", response_of(spec.key)),
            )
            for version in spec.versions
        }

    def run(self, frames: int) -> FuzzReport:
        """Read that many mutated frames. Raises AssertionError with the frame that broke a rule."""
        for _ in range(frames):
            golden = self.random.choice(self.corpus)
            frame = self.mutated(golden.frame)
            self.execute(golden, frame)
        return self.report

    def mutated(self, frame: bytes) -> bytes:
        """The frame after a few mutations, each at a random place."""
        data = bytearray(frame)
        for _ in range(self.random.randint(1, MUTATIONS_MAX)):
            self._mutate(data)
        return bytes(data[:FRAME_BYTES_MAX])

    def _mutate(self, data: bytearray) -> None:
        draw = self.random
        place = draw.randrange(len(data) + 1)
        size = draw.randint(1, 16)
        match draw.randrange(9):
            case 0 if place < len(data):
                data[place] ^= 1 << draw.randrange(8)
            case 1 if place < len(data):
                data[place] = draw.choice(INTERESTING)
            case 2:
                run = draw.choice(INTERESTING_RUNS)
                data[place : place + len(run)] = run
            case 3:
                data[place:place] = draw.randbytes(size)
            case 4:
                del data[place : place + size]
            case 5:
                del data[place:]
            case 6:
                data[place:place] = data[draw.randrange(len(data) + 1) :][:size]
            case 7:
                other = draw.choice(self.corpus).frame
                data[place:] = other[draw.randrange(len(other)) :]
            case _:
                data += draw.randbytes(size)

    def execute(self, golden: GoldenFrame, frame: bytes) -> None:
        report = self.report
        sampled = report.executions % MEMORY_SAMPLE == 0
        report.executions += 1
        started = time.perf_counter()
        try:
            self.read(golden, memoryview(frame))
            report.accepted += 1
        except RemoteProtocolError:
            report.refused += 1
        except Exception as error:
            raise AssertionError(f"{self._place(golden, frame)}: {error!r}") from error
        elapsed_ms = (time.perf_counter() - started) * 1000
        if sampled:
            allowed = PEAK_BYTES_MAX + PEAK_BYTES_PER_BYTE_MAX * len(frame)
            peak_bytes = self._peak_bytes(golden, frame, allowed)
            report.peak_bytes = max(report.peak_bytes, peak_bytes)
            assert peak_bytes <= allowed, f"{self._place(golden, frame)}: {peak_bytes} bytes"
        report.slowest_ms = max(report.slowest_ms, elapsed_ms)
        assert elapsed_ms <= SLOWEST_MS_MAX, f"{self._place(golden, frame)}: {elapsed_ms:.0f} ms"

    def _peak_bytes(self, golden: GoldenFrame, frame: bytes, allowed: int) -> int:
        """Of reading what has been read once: codecs are made at their first use.

        What other threads of the process take meanwhile, such as those of pytest-xdist, is counted
        as well, so that too much is measured again."""
        least = sys.maxsize
        for _ in range(PEAK_TRIALS):
            tracemalloc.start()
            with suppress(RemoteProtocolError):
                self.read(golden, memoryview(frame))
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            least = min(least, peak_bytes)
            if least <= allowed:
                break
        return least

    def read(self, golden: GoldenFrame, frame: memoryview) -> None:
        """As a broker reads a request, or a client the answer to the request it remembers."""
        key, version = int(golden.api_key), golden.api_version
        if golden.side == "request":
            header, position = decode_request_header(frame)
            key, version = header.api_key, header.api_version
        else:
            _, position = decode_response_header(frame, key, version)
        decode = self.decoders.get((golden.side, key, version))
        if decode is None:
            raise RemoteProtocolError("no such version")
        self.report.versions.add((key, version))
        _, end = decode(frame, position)
        assert position <= end <= len(frame), "read beyond the end"

    def _place(self, golden: GoldenFrame, frame: bytes) -> str:
        return (
            f"seed {self.report.seed}, frame {self.report.executions}, from {golden}\n"
            f"python -m tests.protocol.fuzzing {self.report.seed} {self.report.executions}\n"
            f"{frame.hex()}\n"
        )


def main() -> None:
    """Run from the command line and say what happened."""
    seed, frames = (int(argument) for argument in sys.argv[1:3])
    report = FrameFuzzer(seed).run(frames)
    sys.stdout.write(
        f"seed {report.seed}: {report.executions} frames, {report.accepted} read, "
        f"{report.refused} refused, {len(report.versions)} versions, "
        f"slowest {report.slowest_ms:.2f} ms, peak {report.peak_bytes} bytes\n"
    )


if __name__ == "__main__":
    main()
