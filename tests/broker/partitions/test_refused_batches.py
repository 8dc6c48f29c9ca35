"""The log names the producer, the partition and the fault of batches that the broker refuses."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import pytest

from ottla.broker.partitions.refused_batches import INTERVAL_MS, RefusedBatches
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.broker.support.requests import batch, create, produce, produced
from tests.protocol.records.broken import BROKEN, batch_around
from tests.support.virtual_time import in_virtual_time, virtual_broker

if TYPE_CHECKING:
    from ottla.protocol.ports import Ports

INVALID, CORRUPT = ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE
COUNT, DATA = BROKEN["a length of 0"]
BROKEN_BATCH = batch_around(DATA, COUNT)


def test_one_refusal_is_one_sentence_with_partition_client_and_reason() -> None:
    """All that an operator needs to find the producer and its fault."""
    refused = RefusedBatches()
    refused.note(TopicPartition("orders", 3), "billing", INVALID, "record 0 of 1 is not all there")

    assert refused.take() == (
        "refused a batch for orders-3 from client 'billing' with INVALID_RECORD: "
        "record 0 of 1 is not all there"
    )
    assert refused.take() is None


def test_many_refusals_are_one_sentence_with_their_counts() -> None:
    """By error, with the first reason of each, whatever the number of clients is."""
    refused = RefusedBatches()
    for number in range(7):
        refused.note(TopicPartition("t", number), f"c{number}", CORRUPT, f"reason {number}")
    refused.note(TopicPartition("u", 0), None, INVALID, None)

    assert refused.take() == (
        "refused 7 batches for t-0, t-1, t-2 and 4 more from clients 'c0', 'c1', 'c2' and others "
        "with CORRUPT_MESSAGE: the first because reason 0; "
        "refused a batch for u-0 from client (no id) with INVALID_RECORD: no reason given"
    )


def test_a_client_id_cannot_forge_or_flood_the_log() -> None:
    """Clients choose it freely, line breaks included."""
    refused = RefusedBatches()
    refused.note(TopicPartition("t", 0), "x\n2026 ERROR all is lost " + "y" * 9_000, CORRUPT, "r")

    sentence = refused.take()

    assert sentence is not None
    assert "\n" not in sentence
    assert len(sentence) < 250


def test_at_most_one_line_per_second_tells_of_every_refused_batch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A producer that sends broken batches as fast as it can must not fill the disk with lines."""

    async def story(ports: Ports) -> None:
        async with virtual_broker(ports) as running, running.connect() as client:
            await create(client)
            for _ in range(40):
                for _ in range(5):
                    answer = await produced(client, BROKEN_BATCH)
                    assert answer.error_code == INVALID
                await ports.clock.sleep(100)
            assert (await produced(client, batch(b"x"))).base_offset == 0
            await ports.clock.sleep(2 * INTERVAL_MS)

    with caplog.at_level(logging.INFO, "ottla.produce"):
        in_virtual_time(story)
    told = [one.getMessage() for one in caplog.records if one.name == "ottla.produce"]

    # Forty times a tenth of a second, and the line at once.
    assert 4 <= len(told) <= 6
    assert all("for t-0 from client 'raw'" in line for line in told)
    assert all("record 0 of 1 has a length of 0" in line for line in told)
    counts = [int(found[1]) for line in told if (found := re.match(r"refused (\d+) ", line))]
    assert sum(counts) + (len(told) - len(counts)) == 200


def test_a_refused_batch_without_acks_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    """Its producer sees no more than a closed connection. A code that passes is not logged."""

    async def story(ports: Ports) -> None:
        async with virtual_broker(ports) as running:
            async with running.connect() as client:
                await create(client)
                await create(client, "few", min_insync_replicas="2")
                await produced(client, batch(b"x"), topic="nope")
                client.send(9, produce(BROKEN_BATCH, acks=0), "sensors")
                with pytest.raises(EOFError):
                    await client.frame()
            await ports.clock.sleep(2 * INTERVAL_MS)

    with caplog.at_level(logging.INFO, "ottla.produce"):
        in_virtual_time(story)

    (told,) = [one.getMessage() for one in caplog.records if one.name == "ottla.produce"]
    assert told.startswith("refused a batch for t-0 from client 'sensors' with INVALID_RECORD: ")
