"""Bugs in what a replica decides."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "compaction-keeps-the-first-of-a-batch",
        "broker/replica/compaction_map.py",
        "                latest[key] = base_offset + span.offset_delta\n",
        "                if latest.get(key, _NOTHING) < base_offset:\n"
        "                    latest[key] = base_offset + span.offset_delta\n",
        "Of several records of a key in one batch, compaction keeps the last.",
        ("tests/broker/replica/test_compaction_batches.py",),
    ),
)
