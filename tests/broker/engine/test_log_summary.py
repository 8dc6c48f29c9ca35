"""What happens to a thousand partitions at once is one line."""

from __future__ import annotations

from ottla.broker.engine.log_summary import IsrChangeSummary, named
from ottla.protocol.ids import TopicPartition


def parts(count: int) -> list[TopicPartition]:
    """Partitions of one topic."""
    return [TopicPartition("t", number) for number in range(count)]


def test_few_partitions_are_named_and_many_are_counted() -> None:
    """A log line with ten thousand names is unreadable."""
    assert named(parts(2)) == "t-0, t-1"
    assert named(parts(3)) == "t-0, t-1, t-2"
    assert named(parts(20)) == "t-0, t-1, t-2 and 17 more"


def test_who_joined_and_who_left_is_told_once_for_all_partitions() -> None:
    """A restart of a broker changes the in-sync sets of everything that it holds."""
    news = IsrChangeSummary()
    for one in parts(5):
        news.add(one, (1, 3), (1, 3, 2))
    news.add(TopicPartition("u", 0), (1, 2, 3), (1, 2))

    joined, left = news.take()

    assert joined == ["broker 2 has caught up with 5 partitions led here: t-0, t-1, t-2 and 2 more"]
    assert left == [
        "broker 3 has fallen behind in 1 partition led here, which continue without it: u-0"
    ]
    assert news.take() == ([], [])
