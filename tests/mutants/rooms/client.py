"""Bugs in the clients and their state."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "member-joins-while-it-still-has-partitions",
        "client/group/classic_protocol.py",
        "            self._offer(change_of(revoked=to_revoke))\n"
        "            self.phase = MembershipPhase.YIELDING\n",
        "            self._offer(change_of(revoked=to_revoke))\n"
        "            self.phase = MembershipPhase.JOINING\n",
        "A member joins only after the application has finished its part.",
        ("tests/client/group/test_classic_protocol.py",),
    ),
    Mutant(
        "earlier-position-tried-again",
        "client/group/commit_state.py",
        "            elif partition in self._wishes:\n",
        "            elif False:\n",
        "A commit is not retried once a later commit of the partition waits.",
        ("tests/client/group/test_commit_state.py",),
    ),
    Mutant(
        "position-of-an-earlier-stay-tried-again",
        "client/group/commit_state.py",
        "            if partition in self._flying:\n"
        "                self._forgotten.add(partition)\n",
        "",
        "A partition that was revoked and assigned again starts with fresh commit state.",
        ("tests/client/group/test_commit_state.py",),
    ),
    Mutant(
        "parallel-position-is-the-last-done",
        "client/parallel/scheduler.py",
        "        position = self.taken[0] if self.taken else self.next_offset\n",
        "        position = max(self.done, default=-1) + 1 or self.next_offset\n",
        "A parallel consumer commits the first offset that is not done.",
        ("tests/client/parallel/test_scheduler.py",),
    ),
    Mutant(
        "claimed-partition-given-away",
        "client/group/assignors/sticky.py",
        "        found = without_claimed(balanced(partitions, wanted, owners), claims, owners)\n",
        "        found = balanced(partitions, wanted, owners)\n",
        "With cooperative assignment, a partition that another member still claims stays "
        "unassigned for one generation.",
        ("tests/client/group/assignors/test_sticky.py",),
    ),
    Mutant(
        "attempt-ends-with-its-first-caller",
        "wire/pool.py",
        "        await asyncio.wait([attempt])\n",
        "        await asyncio.gather(attempt, return_exceptions=True)\n",
        "A caller whose deadline has passed leaves; work that other callers share continues.",
        ("tests/client/sending/test_call_limits.py", "tests/wire/test_pool.py"),
    ),
    Mutant(
        "two-leaders-are-read-twice",
        "client/fetching/fetcher.py",
        "            if asked_for is not None and "
        "position_asked(self.positions, *asked_for[:3]) is not None:\n",
        "            if asked_for is not None:\n",
        "Records that two leaders send are returned once.",
        ("tests/client/test_late_answers.py",),
    ),
    Mutant(
        "awaited-bytes-not-taken-back",
        "wire/receive_buffer.py",
        "        asyncio.get_running_loop().call_soon(self._back)\n",
        "",
        "The receive low-water mark is reset when the event loop runs.",
        ("tests/wire/test_receive_buffer.py",),
    ),
    Mutant(
        "small-records-take-the-room",
        "client/sending/accumulator.py",
        "        self.room_bytes = self._limits.memory_bytes_max - BATCH_OVERHEAD_BYTES - "
        "size_bytes\n",
        "        pass\n",
        "One caller at a time waits for the producer's memory, and free memory is kept "
        "for that caller.",
        ("tests/client/sending/test_accumulator.py",),
    ),
    Mutant(
        "batches-linger-while-somebody-waits-for-room",
        "client/sending/accumulator.py",
        "size_bytes\n        self.flushing += 1\n",
        "size_bytes\n        self.flushing += 0\n",
        "One caller at a time waits for the producer's memory, and free memory is kept "
        "for that caller.",
        ("tests/client/fetching/test_room.py",),
    ),
    Mutant(
        "unwritable-batch-ends-the-producer",
        "client/sending/sender.py",
        "            except (TypeError, ValueError, OverflowError) as error:\n",
        "            except TypeError as error:\n",
        "The producer finds what cannot be encoded before it assigns a sequence number.",
        ("tests/client/test_unwritable.py",),
    ),
    Mutant(
        "identity-goes-with-the-membership",
        "client/group/member_state.py",
        "        self.generation = NO_GENERATION\n        if not keep_member_id:\n",
        "        self.generation = NO_GENERATION\n"
        "        self.identity = MemberIdentity(self.settings.group_id)\n"
        "        if not keep_member_id:\n",
        "The identity used for commits outlives the membership.",
        ("tests/client/group/test_classic_protocol.py",),
    ),
    Mutant(
        "columns-left-in-a-buffer-that-is-used-again",
        "client/fetching/completed_fetch.py",
        "                columns = fetched.last_columns() if is_last else fetched.columns()\n",
        "                columns = fetched.last_columns()\n",
        "A table that the application keeps does not change when buffers are used again.",
        ("tests/client/test_kept.py", "tests/client/fetching/test_completed_fetch.py"),
    ),
    Mutant(
        "records-handed-out-before-they-are-decoded",
        "client/fetching/completed_fetch.py",
        "        found = FetchedBatch(self.partition, batch, self.position, self._config)\n"
        "        self._leave(batch)\n",
        "        self._leave(batch)\n"
        "        found = FetchedBatch(self.partition, batch, self.position, self._config)\n",
        "A record counts as consumed when it is decoded, not when it leaves the buffer.",
        (
            "tests/client/fetching/test_completed_fetch.py",
            "tests/client/fetching/test_nothing_passed_over.py",
        ),
    ),
    Mutant(
        "mirror-forgets-the-topic-id",
        "client/mirror/session.py",
        "        return Committed(offset, metadata=self._copied.ids[where.topic])\n",
        "        return Committed(offset)\n",
        "A mirror's offsets name the topic id.",
        ("tests/client/mirror/test_remade.py",),
    ),
    Mutant(
        "mirror-believes-a-single-broker",
        "client/mirror/session.py",
        "            consumer._positions[where].pinned_id = uuid_from_text(topic_id)\n",
        "            pass\n",
        "A mirror trusts no single broker about a topic id or the end of its notes.",
        ("tests/client/mirror/test_remade.py",),
    ),
    Mutant(
        "mirror-stores-positions-without-their-topic",
        "client/mirror/session.py",
        "{where: self._position(where, offset) for where, offset in changed.items()}",
        "changed",
        "A mirror's position counts only in the topic of the id that is stored with it.",
        ("tests/client/mirror/test_remade.py",),
    ),
    Mutant(
        "mirror-stores-before-it-has-written-notes",
        "client/mirror/session.py",
        "        await self._write_notes()\n        await self._commit()\n",
        "        await self._commit()\n        await self._write_notes()\n",
        "A mirror reads, sends, waits for the acknowledgement, writes its note, then "
        "stores its offset.",
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
        "A mirror reads, sends, waits for the acknowledgement, writes its note, then "
        "stores its offset.",
        ("tests/client/mirror/test_order.py",),
    ),
)
