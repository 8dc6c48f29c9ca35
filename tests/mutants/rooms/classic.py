"""Bugs in the first APIs: groups that live in ZooKeeper."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "offsets-read-before-the-claim",
        "client/classic/registry/member.py",
        "        if not await registry.claim(owned, self._on_change):\n"
        "            return False\n"
        "        assert self._storage is not None\n"
        "        # Only now: the previous owner committed before it released the partition.\n"
        "        offsets = await self._storage.fetch(owned)\n",
        "        assert self._storage is not None\n"
        "        offsets = await self._storage.fetch(owned)\n"
        "        if not await registry.claim(owned, self._on_change):\n"
        "            return False\n",
        "A member reads the offset of a partition only after it has claimed the partition.",
        ("tests/client/classic/registry/test_takeover.py",),
    ),
    Mutant(
        "partition-let-go-before-its-commit",
        "client/classic/registry/member.py",
        "        if self._uncommitted and self._storage is not None:\n            try:\n",
        "        await registry.release()\n"
        "        if self._uncommitted and self._storage is not None:\n            try:\n",
        "A member commits what it has handed out before it lets a partition go.",
        ("tests/simulation/registry/test_story.py",),
    ),
    Mutant(
        "streams-go-on-beyond-the-session",
        "client/classic/registry/member.py",
        "            if left_ms <= 0:\n                self._feed.hold()\n                return\n",
        "            if left_ms <= 0:\n                return\n",
        "A member hands out no record once its session may be over.",
        ("tests/simulation/registry/test_story.py",),
    ),
    Mutant(
        "group-read-before-its-watches",
        "client/classic/registry/registry.py",
        "        members = await self._members(watch)\n"
        "        await self._children(BROKER_IDS, watch)\n",
        "        members = await self._members(lambda _event: None)\n"
        "        await self._children(BROKER_IDS, watch)\n",
        "Each look at the group sets the watches again before the member acts on it.",
        (
            "tests/simulation/registry/test_story.py",
            "tests/client/classic/registry/test_zookeeper_groups.py",
        ),
    ),
    Mutant(
        "deleted-records-are-not-counted",
        "broker/wire07/ledger.py",
        "        anchor = await self._count_deleted(start)\n",
        "        anchor = None\n",
        "A position that a client of 0.7 was told is never later another message.",
        ("tests/broker/wire07/test_position_oracle.py",),
    ),
    Mutant(
        "positions-begin-anew",
        "broker/wire07/positions.py",
        "    return Anchor(log_start_offset, last.position + TOLD_BYTES_MAX)\n",
        "    return Anchor(log_start_offset, last.position - last.position)\n",
        "A position that a client of 0.7 was told is never later another message.",
        ("tests/broker/wire07/test_position_oracle.py",),
    ),
    Mutant(
        "the-start-is-an-anchor-in-memory",
        "broker/wire07/ledger.py",
        "                await self._store(after)\n",
        "                pass\n",
        "A position that a client of 0.7 was told is never later another message.",
        ("tests/broker/wire07/test_position_oracle.py",),
    ),
)
