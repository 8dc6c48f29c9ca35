"""Parallel runs of several members in one simulated world, under chaos: a member that is killed,
paused or cut off skips no record, and the records of a key are processed in order.

In order means: no member begins a record of a key before all earlier records of that key are done.
Records that were done but not committed when their member ended are done again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from ottla import (
    Consumer,
    ConsumerConfig,
)
from ottla.client.parallel.policy import ParallelLimits, Retry
from ottla.wire.backoff import Backoff
from tests.client.group import test_membership_in_simulation as membership
from tests.client.support.story import ADDRESS, environment_of, started

if TYPE_CHECKING:
    from ottla.client.records.consumer_record import ConsumerRecord
    from ottla.protocol.ports import Ports
    from tests.simulation.world.node import Program

KEYS = 5
LIMITS = ParallelLimits(window_max=60, drain_timeout_ms=3_000)
POLICY = Retry(count=None, backoff=Backoff(5, 100))


class ParallelStory(membership.Story):
    """The members handle with many hands; handlers fail now and then."""

    def __init__(self, seed: int, kind: str) -> None:
        super().__init__(seed, kind)
        # Per partition and key: offsets in the order in which they were first done.
        self.first_done: dict[tuple[int, bytes | None], list[int]] = defaultdict(list)
        self.repeats = 0
        self.failures = 0

    def _draw_key(self, ports: Ports) -> bytes | None:
        return b"key %d" % ports.random.below(KEYS)

    def _reader(self, name: str) -> Program:
        async def read(ports: Ports) -> None:
            await self._topic_exists.wait()
            environment = environment_of(ports)
            config = ConsumerConfig(
                group_id="g",
                offset_reset="earliest",
                request_timeout_ms=1_500,
                session_timeout_ms=membership.SESSION_MS,
                heartbeat_interval_ms=1_000,
                auto_commit_interval_ms=300,
                **membership.KINDS[self.kind],
            )
            consumer = await started(
                ports, lambda: Consumer[bytes, bytes](ADDRESS, config, environment)
            )

            async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
                self._begin(record)
                await ports.clock.sleep(ports.random.below(60))
                if ports.random.below(20) == 0:
                    self.failures += 1
                    raise OSError("not now")
                self._end(record)

            await consumer.subscribe([membership.TOPIC])
            run = consumer.parallel(handle, concurrency=8, on_error=POLICY, limits=LIMITS)
            running = asyncio.ensure_future(run.run())
            waiting = asyncio.ensure_future(self._enough.wait())
            await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
            run.stop()
            await running
            await consumer.close()

        return read

    def _begin(self, record: ConsumerRecord[bytes, bytes]) -> None:
        done = self.first_done[record.partition, record.key]
        if done and record.offset < done[-1] and record.offset not in done:
            self._complain(record, f"begins after {done[-1]} was done")

    def _end(self, record: ConsumerRecord[bytes, bytes]) -> None:
        place = (record.partition, record.offset)
        if place in self.read:
            self.repeats += 1
        else:
            self.first_done[record.partition, record.key].append(record.offset)
        self.read[place] = self.read.get(place, 0) + 1

    def _complain(self, record: ConsumerRecord[bytes, bytes], what: str) -> None:
        text = f"{record.partition} at {record.offset} ({record.key!r}) {what}"
        self.world.report(text)
        self.trespasses.append(text)


@pytest.mark.parametrize("kind", membership.KINDS)
@pytest.mark.parametrize("seed", range(1))
def test_no_record_is_skipped_and_each_key_is_in_order(seed: int, kind: str) -> None:
    """Over all members and all their lives."""
    story = ParallelStory(seed, kind)
    story.run()

    for offsets in story.first_done.values():
        assert offsets == sorted(offsets), f"seed {seed}"
    assert len(story.written) > 500
    assert story.failures > 0
    assert story.repeats < len(story.written), f"seed {seed}"
