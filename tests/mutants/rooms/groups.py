"""Bugs in groups, committed offsets and their shards."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "commit-in-force-before-it-is-replicated",
        "coordinator/group/offsets/ledger.py",
        "        return [\n"
        "            self.add(PendingOffset(group_id, topic_partition, value, writer))\n"
        "            for topic_partition, value in records\n"
        "        ]\n",
        "        changes = [\n"
        "            self.add(PendingOffset(group_id, topic_partition, value, writer))\n"
        "            for topic_partition, value in records\n"
        "        ]\n"
        "        for change in changes:\n"
        "            self._put_in_force(change)\n"
        "        return changes\n",
        "A commit counts once it is below the high watermark.",
        ("tests/coordinator/group/offsets/test_offsets.py",),
    ),
    Mutant(
        "earlier-commit-wins-when-reported-late",
        "coordinator/group/offsets/ledger.py",
        "            if not change.is_superseded:\n                self._put_in_force(change)\n",
        "            self._put_in_force(change)\n",
        "A commit counts once it is below the high watermark.",
        ("tests/coordinator/group/offsets/test_offsets.py",),
    ),
    Mutant(
        "overdue-commit-is-dropped",
        "coordinator/group/offsets/outcome.py",
        "            ledger.on_committed(changes)\n            self.answer(ErrorCode.NONE)\n",
        "            if self.is_answered:\n"
        "                ledger.on_failed(changes)\n"
        "                return\n"
        "            ledger.on_committed(changes)\n            self.answer(ErrorCode.NONE)\n",
        "A refused append of a commit changes nothing.",
        ("tests/coordinator/group/offsets/test_offsets.py",),
    ),
    Mutant(
        "refused-commit-comes-into-force",
        "coordinator/group/offsets/outcome.py",
        "            ledger.on_failed(changes)\n            self.answer(answer_to(error))\n",
        "            ledger.on_committed(changes)\n            self.answer(answer_to(error))\n",
        "A refused append of a commit changes nothing.",
        ("tests/coordinator/group/offsets/test_offsets.py",),
    ),
    Mutant(
        "static-member-told-before-it-is-written",
        "coordinator/group/classic/replacing.py",
        "                on_committed=lambda: self._on_stored(member, change),\n",
        "                on_committed=lambda: None,\n",
        "The new id of a static member is in the log before the coordinator returns it.",
        ("tests/coordinator/group/classic/test_static_members.py",),
    ),
    Mutant(
        "member-that-never-syncs-stays",
        "coordinator/group/classic/rebalance.py",
        "        for member_id in list(self.pending_sync):\n",
        "        for member_id in ():\n",
        "The coordinator removes a member that never sends SyncGroup.",
        ("tests/coordinator/group/classic/test_syncing.py",),
    ),
    Mutant(
        "end-told-while-the-shard-loads",
        "broker/coordinating/shards_markers.py",
        "        if marker is not None and error is ErrorCode.NONE:\n",
        "        if marker is not None:\n",
        "The end of a transaction is told to a shard once it is committed.",
        ("tests/broker/coordinating/test_shards_markers.py",),
    ),
    Mutant(
        "repeated-end-is-told-again",
        "broker/coordinating/shards_markers.py",
        "        self._written[self._last_token] = _Written(marker if is_new else None, done)\n",
        "        self._written[self._last_token] = _Written(marker, done)\n",
        "A shard learns of the end of a transaction in its partition once.",
        ("tests/broker/coordinating/test_shards_markers.py",),
    ),
    Mutant(
        "partition-has-two-owners",
        "coordinator/group/consumer/reconcile.py",
        "free = [pair for pair in wanted if state.owners.get(pair) in (None, member.member_id)]\n",
        "free = wanted\n",
        "A partition goes to its next owner after the previous owner has reported that it "
        "released it.",
        ("tests/coordinator/group/consumer/test_mixed_members.py",),
    ),
    Mutant(
        "let-go-without-a-word",
        "coordinator/group/consumer/reconcile.py",
        "    if surplus and (is_held or not report.is_final):\n",
        "    if surplus and is_held:\n",
        "A partition counts as let go when its owner has said so.",
        ("tests/coordinator/group/consumer",),
    ),
)
