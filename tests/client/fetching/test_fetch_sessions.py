"""Consumers of many partitions, against a real broker."""

from __future__ import annotations

from collections import Counter

from ottla import Admin, Consumer, NewTopic, Producer, TopicPartition

COUNT = 20


async def test_many_partitions_are_read_in_a_session(broker: str) -> None:
    """Requests that leave out what has not changed must still bring everything, through pauses
    and seeks, which take partitions out of the session and back into it."""
    topic = "many-in-a-session"
    async with Admin(broker) as admin:
        await admin.create_topics([NewTopic(topic, COUNT)])
    places = [TopicPartition(topic, number) for number in range(COUNT)]
    seen: Counter[tuple[int, bytes | None]] = Counter()
    async with (
        Producer(broker) as producer,
        Consumer(broker, offset_reset="earliest", fetch_wait_ms=50) as consumer,
    ):
        consumer.assign(places)

        async def step(value: bytes, wanted: int) -> None:
            for place in places:
                await producer.send(topic, value, partition=place.partition)
            await producer.flush()
            while sum(seen.values()) < wanted:
                for record in await consumer.poll():
                    seen[record.partition, record.value] += 1

        await step(b"1", COUNT)
        consumer.pause(*places[:5])
        await step(b"2", 2 * COUNT - 5)
        consumer.resume(*places[:5])
        await step(b"3", 3 * COUNT)
        consumer.seek(places[7], 0)
        await step(b"4", 4 * COUNT + 3)

        sessions = [session for _, session in consumer._fetcher._sessions.values()]
        assert [session.is_incremental for session in sessions] == [True]

    for number in range(COUNT):
        found = [seen[number, value] for value in (b"1", b"2", b"3", b"4")]
        assert found == ([2, 2, 2, 1] if number == 7 else [1, 1, 1, 1])
