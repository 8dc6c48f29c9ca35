"""What is compiled of the record codec: it is here, it is what the tree says, and threads may share
it, with Python's global lock and without it."""

from __future__ import annotations

import importlib
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.builder import BatchOptions, finish_batch
from ottla.protocol.records.record import record_bytes
from tests.protocol.records.twins import (
    COMPILED,
    EXTENSIONS,
    PURE,
    compiled_or_say_why,
    outcome,
    source_crc,
)
from tests.tidy.tree import ROOT

THREADS, ROUNDS = 8, 20


def test_the_compiled_twin_is_here_wherever_it_can_be() -> None:
    """Without this, a build that fails in silence would be a release that is slow in silence."""
    twin = compiled_or_say_why()

    assert twin is COMPILED


@pytest.mark.parametrize("name", EXTENSIONS)
def test_the_compiled_twin_is_built_from_this_source(name: str) -> None:
    """With a stale build every test passes for a source that was never compiled."""
    compiled_or_say_why()
    try:
        module = importlib.import_module(f"ottla.protocol.records.{name}")
    except ImportError as error:
        pytest.skip(str(error))

    assert source_crc(name) == module.SOURCE_CRC, "install again (make)"


def test_threads_share_batches_and_lists() -> None:
    """Each reads and writes what all others do; all get what one alone gets."""
    twin = compiled_or_say_why()
    entries = [
        (number * 7, b"k%d" % number, b"v" * (number % 90), (("n", b"h"),)) for number in range(900)
    ]
    values = [value for _, _, value, _ in entries]
    batch = parse_batch(finish_batch(PURE.encode_entries(entries), BatchOptions()))
    data = record_bytes(batch)
    encoded = outcome(twin.encode_entries, entries)
    expected = outcome(PURE.encode_values, values, 7)
    records = PURE.decode_records(batch, data)

    def work(_: int) -> bool:
        return all(
            outcome(twin.encode_entries, entries) == encoded
            and outcome(twin.encode_values, values, 7) == expected
            and twin.decode_records(batch, data) == records
            for _ in range(ROUNDS)
        )

    with ThreadPoolExecutor(THREADS) as threads:
        assert all(threads.map(work, range(THREADS)))


@pytest.mark.parametrize("name", EXTENSIONS)
def test_the_codec_leaves_a_free_threaded_python_free(name: str) -> None:
    """A module that does not declare it brings the lock back for the whole process."""
    text = (ROOT / "protocol" / "records" / f"{name}.pyx").read_text("utf-8")
    assert "freethreading_compatible=True" in text
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        program = f"import sys, ottla.protocol.records.{name}; sys.exit(sys._is_gil_enabled())"
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
