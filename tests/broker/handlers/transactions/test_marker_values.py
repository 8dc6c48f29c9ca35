"""Control records with values that no broker of today writes, and who reads over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.protocol.records.batch import iterate_batches, stamp
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.record import read_records
from tests.support.in_process import RunningBroker, running_broker

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "t"


async def run_two_transactions(bootstrap: str) -> None:
    """Commits one transaction and aborts another."""
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topics([ottla.NewTopic(TOPIC, 1, 1)])
    async with ottla.Producer(bootstrap, transactional_id="two") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send(TOPIC, b"committed")
        await producer.begin_transaction()
        await (await producer.send(TOPIC, b"aborted"))
        await producer.abort_transaction()


def with_marker_values(segment: bytes, value: bytes) -> tuple[bytes, int]:
    """The segment with that value in each control record, and how many there are."""
    out, count = bytearray(), 0
    for one in iterate_batches(segment):
        if not one.is_control:
            out += segment[len(out) : len(out) + one.size_bytes]
            continue
        count += 1
        (record,) = read_records(one)
        options = BatchOptions(
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            is_control=True,
            is_transactional=True,
        )
        data = bytearray(encode_batch([(record.timestamp, record.key, value, ())], options))
        stamp(data, 0, one.base_offset, one.leader_epoch)
        out += data
    return bytes(out), count


async def read(running: RunningBroker, isolation: ottla.Isolation) -> list[bytes | None]:
    """All values, up to the end of the log."""
    where = ottla.TopicPartition(TOPIC, 0)
    address = running.broker.address
    found: list[bytes | None] = []
    async with ottla.Consumer(
        f"{address.host}:{address.port}", offset_reset="earliest", isolation=isolation
    ) as consumer:
        consumer.assign([where])
        while (consumer.position(where) or 0) < 4:
            found += [record.value for record in await consumer.poll(500)]
    return found


@pytest.mark.requirement("FMT-31")
@pytest.mark.parametrize("value", [bytes(6), b"\xff" * 6, b"\x00\x09abcd"])
async def test_consumers_decide_by_the_key_of_a_control_record_alone(
    tmp_path: Path, value: bytes
) -> None:
    """Values may change in later versions. Here they are changed in the broker's segment file; the
    consumer hides what was aborted, and shows what was committed, as before. Of other lengths:
    ``tests/protocol/records/test_control.py``."""
    offload = RealOffload(2)
    settings = {"log.dirs": str(tmp_path), "transaction.state.log.num.partitions": "1"}
    path = tmp_path / f"{TOPIC}-0" / "00000000000000000000.log"
    async with running_broker(settings, RealDisk(offload)) as running:
        address = running.broker.address
        await run_two_transactions(f"{address.host}:{address.port}")
        before = path.read_bytes()
        changed, count = with_marker_values(before, value)
        assert len(changed) == len(before)
        with path.open("r+b") as segment:
            segment.write(changed)
        committed = await read(running, ottla.Isolation.READ_COMMITTED)
        everything = await read(running, ottla.Isolation.READ_UNCOMMITTED)
    offload.close()

    assert count == 2
    assert committed == [b"committed"]
    assert everything == [b"committed", b"aborted"]
