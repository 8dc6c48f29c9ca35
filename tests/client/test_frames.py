"""Topics as tables, against a real broker."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import ottla
from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition
from ottla.client.frames import iterate_range
from ottla.client.ranges import OffsetRange
from ottla.client.records import arrow
from ottla.client.settings.config import Isolation
from ottla.protocol.ids import TopicPartition as Where

if TYPE_CHECKING:
    from ottla.client.fetching.offset_specs import Moment


async def made(broker: str, topic: str, partitions: int = 1) -> str:
    """The topic, empty."""
    async with Admin(broker) as admin:
        await admin.create_topics([NewTopic(topic, partitions)])
    return topic


async def filled(broker: str, topic: str, count: int, partitions: int = 2) -> str:
    """A topic with so many records in each partition; key and timestamp are the number."""
    await made(broker, topic, partitions)
    async with Producer(broker) as producer:
        for partition in range(partitions):
            for number in range(count):
                name = b"%d" % number
                await producer.send(topic, name, name, partition=partition, timestamp=1000 + number)
    return topic


async def test_a_topic_is_a_table_of_the_schema(broker: str) -> None:
    """The columns equal the records, partition after partition, for any batches."""
    topic = await filled(broker, "frames-table", 30)

    table = await ottla.aread_arrow(topic, bootstrap_servers=broker)

    table.validate(full=True)
    assert table.schema == arrow.SCHEMA
    assert table.column("partition").to_pylist() == [0] * 30 + [1] * 30
    assert table.column("offset").to_pylist() == list(range(30)) * 2
    assert table.column("value").to_pylist() == [b"%d" % number for number in range(30)] * 2
    assert table.column("topic").unique().to_pylist() == [topic]
    assert table.column("timestamp")[0].as_py() == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


async def test_offsets_and_times_say_where_to_begin_and_to_end(broker: str) -> None:
    """The end is exclusive; a range beyond the log is cut off."""
    topic = await filled(broker, "frames-ends", 10, 1)

    async def offsets(start: Moment = "earliest", end: Moment = "latest") -> list[int]:
        table = await ottla.aread_arrow(topic, bootstrap_servers=broker, start=start, end=end)
        found: list[int] = table.column("offset").to_pylist()
        return found

    assert await offsets(start=3, end=5) == [3, 4]
    assert await offsets(start=-2) == [8, 9]
    assert await offsets(end=-8) == [0, 1]
    assert await offsets(start={0: 9}, end=99) == [9]
    assert await offsets(start=datetime.fromtimestamp(1.007, UTC)) == [7, 8, 9]
    assert await offsets(end="1970-01-01T00:00:01.002+00:00") == [0, 1]
    assert await offsets(start="1h") == []
    assert await offsets(end=timedelta(hours=1)) == list(range(10))
    assert await offsets(start="latest") == []
    assert await offsets(start=5, end=2) == []


async def test_columns_and_partitions_can_be_chosen(broker: str) -> None:
    """An application that wants only the values should not pay for the rest."""
    topic = await filled(broker, "frames-chosen", 5, 3)

    table = await ottla.aread_arrow(
        topic, bootstrap_servers=broker, partitions=[2], columns=["value", "offset"]
    )

    assert table.schema.names == ["value", "offset"]
    assert table.num_rows == 5
    with pytest.raises(ValueError, match="there is no column 'price'"):
        await ottla.aread_arrow(topic, bootstrap_servers=broker, columns=["price"])
    with pytest.raises(ottla.RequestRefused, match="it has the partitions 0 to 2 only"):
        await ottla.aread_arrow(topic, bootstrap_servers=broker, partitions=[3])


async def test_an_unknown_topic_is_one_sentence(broker: str) -> None:
    """Neither an empty table nor an endless wait would name the mistake."""
    with pytest.raises(ottla.RequestRefused, match="frames-nowhere"):
        await ottla.aread_arrow("frames-nowhere", bootstrap_servers=broker)


async def test_an_empty_topic_is_an_empty_table(broker: str) -> None:
    """With its columns, so that programs need no special case."""
    topic = await made(broker, "frames-empty")

    table = await ottla.aread_arrow(topic, bootstrap_servers=broker)

    assert (table.num_rows, table.schema) == (0, arrow.SCHEMA)


async def test_aborted_records_and_markers_neither_show_nor_hang(broker: str) -> None:
    """The last offsets of a transactional topic are markers that no reader ever sees."""
    topic = await made(broker, "frames-transactions")
    async with Producer(broker, transactional_id="frames") as producer:
        await producer.init_transactions()
        for number in range(4):
            try:
                async with producer.transaction():
                    for place in range(5):
                        await producer.send(topic, b"%d-%d" % (number, place))
                    await producer.flush()
                    if number % 2:
                        raise RuntimeError("thought better of it")
            except RuntimeError:
                pass

    committed = await ottla.aread_arrow(topic, bootstrap_servers=broker)
    everything = await ottla.aread_arrow(
        topic, bootstrap_servers=broker, isolation=Isolation.READ_UNCOMMITTED
    )

    expected = [b"%d-%d" % (number, place) for number in (0, 2) for place in range(5)]
    assert committed.column("value").to_pylist() == expected
    assert everything.num_rows == 20


async def test_batches_are_part_of_the_transaction_that_is_open(broker: str) -> None:
    """All records of a call are committed or none, in whichever form they were passed."""
    topic = await made(broker, "frames-bulk-transactions", 2)
    table = pa.table({"value": [b"%d" % number for number in range(20_000)]})
    async with Producer(broker, transactional_id="frames-bulk") as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send_batch(topic, table)
        await producer.flush()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"first", partition=0)
            sent = await producer.send_batch(topic, table, partition=0)

    assert sum(place.record_count for place in await sent) == 20_000
    found = await ottla.aread_arrow(topic, bootstrap_servers=broker, columns=["value"])
    assert found.column("value").to_pylist() == [b"first", *table.column("value").to_pylist()]


async def test_the_end_is_settled_at_the_beginning(broker: str) -> None:
    """Otherwise a topic that grows as fast as it is read would never end."""
    topic = await filled(broker, "frames-growing", 100, 1)
    stop = asyncio.Event()

    async def grow() -> None:
        async with Producer(broker) as producer:
            while not stop.is_set():
                await producer.send_batch(topic, [b"more"] * 50)
                await producer.flush()

    growing = asyncio.create_task(grow())
    try:
        table = await ottla.aread_arrow(topic, bootstrap_servers=broker, start=-1)
        again = await ottla.aread_arrow(topic, bootstrap_servers=broker)
    finally:
        stop.set()
        await growing

    assert table.num_rows == 1
    assert again.column("offset").to_pylist() == list(range(again.num_rows))


def test_programs_that_block_read_tables_too(broker: str) -> None:
    """The same function without await, for scripts and data frames of other libraries."""
    topic = asyncio.run(filled(broker, "frames-blocking", 3, 1))

    table = ottla.read_arrow(topic, bootstrap_servers=broker)
    polars = ottla.read_polars(topic, bootstrap_servers=broker, columns=["offset", "value"])
    pandas = ottla.read_pandas(topic, bootstrap_servers=broker)

    assert table.num_rows == 3
    assert polars.to_dict(as_series=False) == {"offset": [0, 1, 2], "value": [b"0", b"1", b"2"]}
    assert pandas["value"].tolist() == [b"0", b"1", b"2"]


async def test_blocking_inside_of_a_loop_is_refused_with_what_to_do(broker: str) -> None:
    """A notebook has a loop; waiting in it would stop the very thing that is waited for."""
    with pytest.raises(RuntimeError, match=r"await ottla\.aread_polars"):
        ottla.read_polars("t", bootstrap_servers=broker)


def test_one_range_can_be_read_by_a_worker_of_its_own(broker: str) -> None:
    """Batch jobs plan ranges in one place and read them in many."""
    topic = asyncio.run(filled(broker, "frames-range", 20, 1))
    where = Where(topic, 0)

    batches = list(iterate_range(OffsetRange(where, 5, 12), bootstrap_servers=broker))

    assert pa.Table.from_batches(batches).column("offset").to_pylist() == list(range(5, 12))


async def test_a_consumer_hands_out_arrow_batches(broker: str) -> None:
    """Sizes are bounded, nothing is left out, and the iteration ends when nothing comes."""
    topic = await filled(broker, "frames-consumer", 25, 2)
    async with Consumer(broker, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        batches = [batch async for batch in consumer.arrow(max_wait_ms=3000, max_records=10)]

    assert all(0 < batch.num_rows <= 10 for batch in batches)
    assert all(len(batch.column("partition").unique()) == 1 for batch in batches)
    found: dict[int, list[int]] = {0: [], 1: []}
    for batch in batches:
        found[batch.column("partition")[0].as_py()] += batch.column("offset").to_pylist()
    assert found == {0: list(range(25)), 1: list(range(25))}


@pytest.mark.parametrize("way", ["batches", "arrow"])
async def test_positions_do_not_run_ahead_of_what_was_handed_out(broker: str, way: str) -> None:
    """A commit after one batch must not cover the next, which the application has not seen."""
    topic = await made(broker, f"frames-ahead-{way}", 2)
    places = [TopicPartition(topic, number) for number in range(2)]
    async with Producer(broker) as producer:
        for _ in range(3):
            for place in places:
                await producer.send_batch(topic, [b"x"] * 5_000, partition=place.partition)
            await producer.flush()
    async with Consumer(broker, offset_reset="earliest") as consumer:
        consumer.assign(places)
        seen = 0
        async for batch in consumer.batches() if way == "batches" else consumer.arrow():
            seen += batch.count if isinstance(batch, ottla.FetchedBatch) else batch.num_rows
            assert sum(consumer.position(place) or 0 for place in places) == seen
            if seen == 30_000:
                break


async def test_a_consumer_hands_out_columns(broker: str) -> None:
    """Without pyarrow, for those who have their own way with buffers."""
    topic = await filled(broker, "frames-columns", 10, 1)
    async with Consumer(broker, offset_reset="earliest") as consumer:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        first = await consumer.poll_columns(max_records=4)
        position = consumer.position(where)
        rest = await consumer.poll_columns()

    records = [record for _, columns in first + rest for record in columns.records()]
    assert position == 4
    assert [record.offset for record in records] == list(range(10))
