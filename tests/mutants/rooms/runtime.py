"""Bugs in what runs the partitions, reads, waits and ids of a broker."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "short-produce-ignores-the-lease",
        "broker/runtime/partition.py",
        "            or (leading.followers and not self.has_lease)\n",
        "",
        "The short produce path refuses a write without a lease.",
        ("tests/broker/runtime/test_lease.py",),
    ),
    Mutant(
        "short-produce-fills-the-disk",
        "broker/runtime/partition.py",
        "            or log.home.health.is_low_on_space\n",
        "",
        "The short produce path refuses a write when the disk is almost full.",
        ("tests/broker/api/test_disk_faults.py",),
    ),
    Mutant(
        "min-bytes-looks-at-the-largest-partition",
        "broker/runtime/reads.py",
        "        readable_bytes += read.size_bytes\n",
        "        readable_bytes = max(readable_bytes, read.size_bytes)\n",
        "min_bytes of a fetch counts the bytes of all its partitions.",
        ("tests/broker/api/test_fetch_waiting.py",),
    ),
    Mutant(
        "fetch-waits-four-times-as-long",
        "broker/runtime/reads.py",
        "            context.received_ms + plan.max_wait_ms,\n",
        "            context.received_ms + 4 * plan.max_wait_ms,\n",
        "A fetch waits for max_wait and not longer.",
        ("tests/broker/api/test_fetch_waiting.py",),
    ),
    Mutant(
        "producer-id-block-taken-without-comparing",
        "broker/runtime/producer_ids.py",
        "await session.set(paths.PRODUCER_ID_BLOCK, data, found.stat.version)",
        "await session.set(paths.PRODUCER_ID_BLOCK, data)",
        "Two brokers never hand out the same producer id.",
        ("tests/broker/runtime/test_producer_ids.py",),
    ),
)
