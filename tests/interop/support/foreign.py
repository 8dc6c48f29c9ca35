"""A foreign client in a separate process: one JSON step in, one JSON result out."""

from __future__ import annotations

import base64
import json
import os
import queue
import subprocess
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.interop.support.samples import Sample
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

STEP_TIMEOUT_S = 120


class Capabilities(NamedTuple):
    """Features that a client lacks with any broker; all others are required of it."""

    without_steps: frozenset[str] = frozenset()
    without_codecs: frozenset[str] = frozenset()
    # Whether it refuses to send a record that has neither key nor value.
    without_empty_records: bool = False
    without_null_headers: bool = False
    # Whether it fills in all other settings of a resource before it sends an AlterConfigs.
    alters_incrementally: bool = False


class Program:
    """A running program. Use as a context manager: leaving it ends the process."""

    def __init__(
        self, command: Iterable[str | Path], log: Path, capabilities: Capabilities
    ) -> None:
        self.capabilities = capabilities
        # Who reads back what this client has written: itself, unless it cannot.
        self.reader = self
        # Told before each step, so that frames that are kept carry the right client's name.
        self.announce: Callable[[], None] = lambda: None
        self._log = log
        self._results: queue.SimpleQueue[str] = queue.SimpleQueue()
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                text=True,
                encoding="utf-8",
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Collect the results; other lines on standard output are the client's own."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._results.put(line)
        self._results.put('{"error": "the program has ended"}')

    def step(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Do one step; the test is skipped where this client has no such call."""
        if name in self.capabilities.without_steps:
            pytest.skip(f"this client has no call for {name}")
        self.announce()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": name, **arguments}) + "\n")
        self._process.stdin.flush()
        try:
            result: dict[str, Any] = json.loads(self._results.get(timeout=STEP_TIMEOUT_S))
        except queue.Empty:
            result = {"error": f"no result within {STEP_TIMEOUT_S} s"}
        if "error" in result:
            said = self._log.read_text("utf-8", "replace")[-1500:]
            pytest.fail(f"{name}: {result['error']}\n{said}")
        return result

    def can(self, name: str) -> bool:
        """Whether the client has such a call."""
        return name not in self.capabilities.without_steps

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


def packed(records: list[Sample]) -> list[dict[str, Any]]:
    """Samples in the form of a step."""
    return [
        {
            "key": _pack(record.key),
            "value": _pack(record.value),
            "headers": [[name, _pack(value)] for name, value in record.headers],
            "timestamp": record.timestamp,
        }
        for record in records
    ]


def unpacked(records: list[dict[str, Any]]) -> list[Sample]:
    """Samples from the records of a result."""
    return [
        Sample(
            _unpack(record["key"]),
            _unpack(record["value"]),
            tuple((name, _unpack(value)) for name, value in record["headers"]),
            record["timestamp"],
        )
        for record in records
    ]


def _pack(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _unpack(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
