"""The parameters of a client load, and the report of its results."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(slots=True)
class Orders:
    """``load`` is ``module.function``; ``count`` records of ``record_bytes`` are to be moved."""

    load: str
    address: str
    topic: str
    count: int
    record_bytes: int

    @property
    def value(self) -> bytes:
        return (b"0123456789abcdef" * (self.record_bytes // 16 + 1))[: self.record_bytes]

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.address.rpartition(":")
        return host, int(port)


class Watch:
    """Wall and processor time from its making to ``stop``."""

    def __init__(self) -> None:
        self._started, self._cpu = time.perf_counter(), time.process_time()
        self._seconds = self._cpu_seconds = 0.0
        self._count = 0

    def stop(self, count: int) -> Watch:
        """Stop the clock after so many records."""
        self._seconds = time.perf_counter() - self._started
        self._cpu_seconds = time.process_time() - self._cpu
        self._count = count
        return self

    def figures(self) -> dict[str, float]:
        """The results as the parent process reads them."""
        return {
            "records": self._count,
            "seconds": self._seconds,
            "cpu_seconds": self._cpu_seconds,
        }
