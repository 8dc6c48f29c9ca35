"""Returning freed memory to the system, where the C library supports it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ottla.client.process.allocator import VARIABLE, keep_freed_memory
from tests.support.broker_process import ROOT

# A megabyte is 256 pages, which come singly or in groups: made sixty times, it costs a few hundred
# faults at least wherever each time it comes from the kernel.
MAKES_BUFFERS = """
import resource
from ottla.client.process.allocator import keep_freed_memory
was_kept = keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
content = bytes(1_000_000)
bytearray(content)
before = faults()
for _ in range(60):
    bytearray(content)
print(int(was_kept), faults() - before)
"""


def made(**environment: str) -> tuple[bool, int]:
    """Whether memory is kept, and the page faults of sixty buffers of a megabyte."""
    kept_out = {"MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES", VARIABLE}
    clean = {name: value for name, value in os.environ.items() if name not in kept_out}
    done = subprocess.run(
        [sys.executable, "-c", MAKES_BUFFERS],
        env={**clean, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    was_kept, faults = done.stdout.split()
    return was_kept == "1", int(faults)


def test_large_buffers_cost_their_pages_once() -> None:
    """Clearing and mapping pages costs more than what is copied into them."""
    was_kept, faults = made()
    if not was_kept:
        pytest.skip("this C library cannot be told")

    assert faults < 60


@pytest.mark.parametrize("setting", [{VARIABLE: "0"}, {"MALLOC_TRIM_THRESHOLD_": "1000000"}])
def test_who_has_settings_of_their_own_keeps_them(setting: dict[str, str]) -> None:
    """An operator who counts pages decides."""
    was_kept, _ = made(**setting)

    assert not was_kept


def test_the_answer_stays_what_it_was() -> None:
    """The setting is for the whole process: later calls cost nothing."""
    assert keep_freed_memory() is keep_freed_memory()
