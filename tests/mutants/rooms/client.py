"""Bugs in the clients and their state."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "member-joins-while-it-still-has-partitions",
        "client/group/classic_protocol.py",
        "            self._offer(change_of(revoked=to_revoke))\n"
        "            self.phase = Phase.YIELDING\n",
        "            self._offer(change_of(revoked=to_revoke))\n"
        "            self.phase = Phase.JOINING\n",
        "A member does not join before the application has done its part",
        ("tests/client/group/test_classic_protocol.py",),
    ),
    Mutant(
        "earlier-position-tried-again",
        "client/group/commit_state.py",
        "            elif partition in self._wishes:\n",
        "            elif False:\n",
        "A position under way is never tried again once a later one waits.",
        ("tests/client/group/test_commit_state.py",),
    ),
    Mutant(
        "position-of-an-earlier-stay-tried-again",
        "client/group/commit_state.py",
        "            if partition in self._flying:\n"
        "                self._forgotten.add(partition)\n",
        "",
        "A partition that was given up and came back is another matter",
        ("tests/client/group/test_commit_state.py",),
    ),
    Mutant(
        "parallel-position-is-the-last-done",
        "client/parallel/scheduler.py",
        "        position = self.taken[0] if self.taken else self.next_offset\n",
        "        position = max(self.done, default=-1) + 1 or self.next_offset\n",
        "A parallel position is the first offset that is not done",
        ("tests/client/parallel/test_scheduler.py",),
    ),
    Mutant(
        "claimed-partition-given-away",
        "client/group/assignors/sticky.py",
        "        found = without_claimed(balanced(partitions, wanted, owners), claims, owners)\n",
        "        found = balanced(partitions, wanted, owners)\n",
        "Cooperative: what another member still claims is nobody's for one generation.",
        ("tests/client/group/assignors/test_sticky.py",),
    ),
    Mutant(
        "attempt-ends-with-its-first-caller",
        "wire/pool.py",
        "        await asyncio.wait([attempt])\n",
        "        await asyncio.gather(attempt, return_exceptions=True)\n",
        "Whoever has no time left leaves; what others share goes on.",
        ("tests/client/sending/test_call_limits.py", "tests/wire/test_pool.py"),
    ),
    Mutant(
        "two-leaders-are-read-twice",
        "client/fetching/fetcher.py",
        "            if asked_for is not None and "
        "place_asked(self.positions, *asked_for[:3]) is not None:\n",
        "            if asked_for is not None:\n",
        "What two leaders send is read once.",
        ("tests/client/test_late_answers.py",),
    ),
    Mutant(
        "awaited-bytes-not-taken-back",
        "wire/receive_buffer.py",
        "        asyncio.get_running_loop().call_soon(self._back)\n",
        "",
        "What is awaited is taken back when the loop runs.",
        ("tests/wire/test_receive_buffer.py",),
    ),
    Mutant(
        "small-records-take-the-room",
        "client/sending/accumulator.py",
        "        self.room_bytes = self._limits.memory_bytes_max - BATCH_OVERHEAD_BYTES - "
        "size_bytes\n",
        "        pass\n",
        "One at a time waits for a producer's memory, and what is free is left to it",
        ("tests/client/sending/test_accumulator.py",),
    ),
    Mutant(
        "batches-linger-while-somebody-waits-for-room",
        "client/sending/accumulator.py",
        "size_bytes\n        self.flushing += 1\n",
        "size_bytes\n        self.flushing += 0\n",
        "One at a time waits for a producer's memory, and what is free is left to it",
        ("tests/client/fetching/test_room.py",),
    ),
    Mutant(
        "unwritable-batch-ends-the-producer",
        "client/sending/sender.py",
        "            except (TypeError, ValueError, OverflowError) as error:\n",
        "            except TypeError as error:\n",
        "What cannot be written is found before it is numbered",
        ("tests/client/test_unwritable.py",),
    ),
    Mutant(
        "identity-goes-with-the-membership",
        "client/group/member_state.py",
        "        self.generation = NO_GENERATION\n        if not keep_member_id:\n",
        "        self.generation = NO_GENERATION\n"
        "        self.identity = MemberIdentity(self.settings.group_id)\n"
        "        if not keep_member_id:\n",
        "The identity for commits outlives the membership.",
        ("tests/client/group/test_classic_protocol.py",),
    ),
    Mutant(
        "columns-left-in-a-buffer-that-is-used-again",
        "client/fetching/chunk.py",
        "                columns = fetched.last_columns() if is_last else fetched.columns()\n",
        "                columns = fetched.last_columns()\n",
        "A kept table does not change when buffers are used again.",
        ("tests/client/test_kept.py", "tests/client/fetching/test_chunk.py"),
    ),
    Mutant(
        "records-handed-out-before-they-are-decoded",
        "client/fetching/chunk.py",
        "        found = FetchedBatch(self.partition, batch, self.position, self._config)\n"
        "        self._leave(batch)\n",
        "        self._leave(batch)\n"
        "        found = FetchedBatch(self.partition, batch, self.position, self._config)\n",
        "A record is handed out when it was decoded",
        (
            "tests/client/fetching/test_chunk.py",
            "tests/client/fetching/test_nothing_passed_over.py",
        ),
    ),
    Mutant(
        "mirror-forgets-the-topic-id",
        "client/mirror/session.py",
        "        return Committed(offset, metadata=self._copied.ids[where.topic])\n",
        "        return Committed(offset)\n",
        "A mirror's positions name the topic's id.",
        ("tests/client/mirror/test_remade.py",),
    ),
    Mutant(
        "mirror-believes-a-single-broker",
        "client/mirror/session.py",
        "                self._consumer._positions[where].pinned_id = uuid_from_text(topic_id)\n",
        "                pass\n",
        "No single broker tells a mirror which topic there is, or where the notes end.",
        ("tests/client/mirror/test_remade.py",),
    ),
    Mutant(
        "mirror-stores-before-it-has-written-notes",
        "client/mirror/session.py",
        "        await self._write_notes()\n        await self._commit()\n",
        "        await self._commit()\n        await self._write_notes()\n",
        "A mirror reads, sends, hears that it is stored, notes where, and only then stores its "
        "position.",
        ("tests/client/mirror/test_order.py",),
    ),
    Mutant(
        "mirror-stores-before-it-has-sent",
        "client/mirror/session.py",
        "            await self._copy(batches)\n            self._has_reached()\n"
        "            if is_due:\n",
        "            self._has_reached()\n            if is_due:\n"
        "                await self._store()\n            await self._copy(batches)\n"
        "            if is_due:\n",
        "A mirror reads, sends, hears that it is stored, notes where, and only then stores its "
        "position.",
        ("tests/client/mirror/test_order.py",),
    ),
)
