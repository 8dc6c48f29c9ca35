"""Bugs in what a replica decides."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "compaction-keeps-the-first-of-a-batch",
        "broker/cleaner/offset_map.py",
        "                latest[key] = base_offset + span.offset_delta\n",
        "                if latest.get(key, _NOTHING) < base_offset:\n"
        "                    latest[key] = base_offset + span.offset_delta\n",
        "Of several records of a key in one batch, compaction keeps the last.",
        ("tests/broker/cleaner/test_batches.py",),
    ),
    Mutant(
        "messages-behind-count-at-all-times",
        "broker/replica/leading.py",
        "    lag_messages_max: int = ANY_LAG\n",
        "    lag_messages_max: int = 4_000\n",
        "Only with the rules of Kafka 0.8 does the number of messages behind count.",
        ("tests/broker/replica/test_leading.py",),
    ),
    Mutant(
        "four-batches-remembered",
        "broker/replica/producer.py",
        "BATCHES_MAX = 5\n",
        "BATCHES_MAX = 4\n",
        "The broker remembers five batches per producer, also across restarts.",
        ("tests/broker/replica/test_snapshots.py", "tests/broker/replica/test_producers.py"),
    ),
    Mutant(
        "sequence-gap-accepted",
        "broker/replica/producer.py",
        "        return _refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)\n\n    def _is_in",
        "        return APPEND\n\n    def _is_in",
        "A sequence that is neither the next nor one of the last five is out of order.",
        ("tests/broker/replica/test_producers.py", "tests/broker/replica/test_producer_model.py"),
    ),
    Mutant(
        "silent-leadership-forgotten",
        "broker/replica/epochs.py",
        "            if known_epoch in (leader_epoch, UNDEFINED_EPOCH):\n",
        "            if known_epoch == UNDEFINED_EPOCH:\n",
        "A new leader epoch is on disk before the broker serves anything in it.",
        ("tests/broker/replica/test_epochs.py",),
    ),
    Mutant(
        "fetch-dated-by-its-arrival",
        "broker/replica/leadership_proofs.py",
        "        proven = self._answered.get(connection, NOT_PROVEN)\n",
        "        proven = self.question if connection in self._answered else NOT_PROVEN\n",
        "A fetch proves what the follower had read when it sent the fetch, not when it arrived.",
        ("tests/broker/replica/test_leadership_proofs.py",),
    ),
    Mutant(
        "guard-outlives-a-marker",
        "broker/replica/verification.py",
        "            guard.is_standing = guard.is_confirmed = False\n",
        "            guard.is_confirmed = False\n",
        "A coordinator's yes counts only for the guard that existed before the question.",
        ("tests/broker/replica/test_verification.py",),
    ),
    Mutant(
        "compaction-up-to-the-high-watermark",
        "broker/replica/compaction.py",
        "    limit = min(bounds.high_watermark, bounds.last_stable_offset)\n",
        "    limit = bounds.high_watermark\n",
        "The cleaner leaves alone everything that may still change.",
        ("tests/broker/replica/test_compaction.py",),
    ),
    Mutant(
        "compaction-of-the-active-segment",
        "broker/replica/compaction.py",
        "        if segment.is_active or segment.next_offset > limit:\n",
        "        if segment.next_offset > limit:\n",
        "The cleaner leaves alone everything that may still change.",
        ("tests/broker/replica/test_compaction.py",),
    ),
    Mutant(
        "marker-goes-before-its-data",
        "broker/cleaner/transactions.py",
        "        return not was_seen, row if was_seen else None\n",
        "        return True, row if was_seen else None\n",
        "A transaction marker is removed after all data of its transaction and after its "
        "delete horizon.",
        ("tests/broker/cleaner/test_batches.py",),
    ),
    Mutant(
        "outcome-judged-without-min-insync",
        "broker/replica/partition.py",
        "            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND\n",
        "            return _NONE\n",
        "acks=all fails when too few are in sync after the append.",
        ("tests/broker/replica/test_partition.py", "tests/broker/following/test_replication.py"),
    ),
    Mutant(
        "follower-of-an-older-life-counts",
        "broker/replica/partition.py",
        "        if fetch.broker_epoch < follower.broker_epoch:\n"
        "            return FetchVerdict(ErrorCode.NOT_LEADER_OR_FOLLOWER)\n",
        "",
        "A fetch of a follower's older incarnation counts for nothing.",
        ("tests/broker/replica/test_roles.py",),
    ),
    Mutant(
        "watermark-falls-back",
        "broker/replica/partition.py",
        "        return self._set_watermark(max(known, self.high_watermark))\n",
        "        return self._set_watermark(known)\n",
        "A follower's high watermark never goes back.",
        ("tests/broker/replica/test_partition.py", "tests/broker/replica/test_roles.py"),
    ),
    Mutant(
        "zero-and-one-written-without-a-lease",
        "broker/replica/partition.py",
        "            if required_acks != ACKS_ALL or may_vanish:\n",
        "            if may_vanish:\n",
        "Without a lease, what could be lost silently is refused.",
        ("tests/broker/partitions/test_lease.py", "tests/broker/replica/test_partition.py"),
    ),
    Mutant(
        "offsets-known-before-they-are",
        "broker/replica/partition.py",
        "        if self.leading is not None and self.high_watermark < "
        "self.leading.epoch_start_offset:\n",
        "        if False:\n",
        "A new leader says no offsets before it knows what is committed.",
        ("tests/broker/replica/test_partition.py", "tests/broker/replica/test_roles.py"),
    ),
    Mutant(
        "not-stored-after-an-append",
        "broker/replica/partition.py",
        "            return ErrorCode.REQUEST_TIMED_OUT\n        if self.high_watermark",
        "            return ErrorCode.NOT_LEADER_OR_FOLLOWER\n        if self.high_watermark",
        'After an append the leader never answers with an error that means "not stored".',
        ("tests/broker/replica/test_partition.py",),
    ),
    Mutant(
        "shard-goes-on-over-a-skipped-epoch",
        "broker/replica/partition.py",
        "        is_next = self.led_since <= leader_epoch and "
        "self.leader_epoch - leader_epoch <= 1\n",
        "        is_next = True\n",
        "A shard ends where another broker may have led.",
        ("tests/broker/coordinating/test_shards.py",),
    ),
    Mutant(
        "batch-behind-a-refused-one-is-out-of-order",
        "broker/replica/refusals.py",
        "        behind.append(batch.base_sequence)\n        return refused.error\n",
        "        return None\n",
        "A batch out of order behind a refused batch gets the same refusal, once.",
        ("tests/broker/partitions/test_new_epochs.py",),
    ),
    Mutant(
        "batch-behind-a-refused-one-is-refused-for-ever",
        "broker/replica/refusals.py",
        "        behind.append(batch.base_sequence)\n",
        "",
        "A batch out of order behind a refused batch gets the same refusal, once.",
        ("tests/broker/partitions/test_new_epochs.py", "tests/broker/replica/test_refusals.py"),
    ),
    Mutant(
        "follower-joins-from-memory",
        "broker/replica/leading.py",
        "        if (\n            asking is not None\n"
        "            and self.may_join(asking, high_watermark)\n",
        "        known = [one for one in self.followers if self.may_join(one, high_watermark)]\n"
        "        asking = known[0] if known else None\n"
        "        if (\n            asking is not None\n",
        "A follower joins the ISR only while the leader handles a fetch of that follower.",
        ("tests/broker/partitions/test_isr_joins.py",),
    ),
    Mutant(
        "joiners-lack-deletions",
        "broker/replica/leading.py",
        "            and follower.log_start_offset >= self.promised_start_offset\n",
        "",
        "A replica joins the ISR only with a log that starts where deletions were promised to.",
        ("tests/broker/replica/test_leading.py",),
    ),
    Mutant(
        "new-leader-forgets-deletions",
        "broker/replica/partition.py",
        "        self.leading.promise_start(self.log_start_offset)\n",
        "",
        "A replica joins the ISR only with a log that starts where deletions were promised to.",
        ("tests/broker/replica/test_leading.py",),
    ),
)
