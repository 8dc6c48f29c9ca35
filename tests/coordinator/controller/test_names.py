"""Names and numbers of all topics are kept up, not counted for each request."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any

from ottla.coordinator.controller.events import CreateTopics
from ottla.coordinator.controller.names import TopicTally, collision_key
from ottla.coordinator.controller.specs import TopicSpec
from ottla.coordinator.metadata.image import PartitionState, TopicImage
from tests.coordinator.controller.scene import Scene, broker

if TYPE_CHECKING:
    from collections.abc import Callable


def _topic(draw: random.Random, name: str) -> TopicImage:
    states = {
        index: PartitionState(tuple(range(draw.randint(1, 3))))
        for index in range(draw.randint(0, 4))
    }
    return TopicImage(name, name.encode().ljust(16), states)


def test_what_is_kept_up_is_what_would_be_counted() -> None:
    """A limit of replicas that drifts refuses topics, or lets a cluster grow over its limit."""
    draw = random.Random(7)
    topics: dict[str, TopicImage] = {}
    tally = TopicTally(topics)
    names = ["a.b", "a_b", "c", "d.e", "d_e", "d.e.f"]
    for _ in range(500):
        name = draw.choice(names)
        new = _topic(draw, name) if draw.random() < 0.7 else None
        tally.replace(topics.pop(name, None), new)
        if new is not None:
            topics[name] = new

        anew = TopicTally(topics)

        assert (tally.topic_count, tally.partition_count, tally.replica_count) == (
            anew.topic_count,
            anew.partition_count,
            anew.replica_count,
        )
        assert [tally.name_of(collision_key(one)) for one in names] == [
            anew.name_of(collision_key(one)) for one in names
        ]


def _calls_of(work: Callable[[], object]) -> int:
    """Calls of Python and C functions: the same number on each machine."""
    count = 0

    def on_call(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(on_call)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_one_more_topic_costs_the_same_whether_there_are_ten_or_a_thousand() -> None:
    """A cluster with ten thousand topics makes the next one as quickly as its first."""
    machine = Scene(broker(1)).elect(broker(1))

    def make(name: str) -> None:
        spec = TopicSpec(name, 1, 1, topic_id=name.encode().rjust(16, b"x"))
        for write in machine.handle(CreateTopics((spec,), False), 0).records:
            machine.replay(write)

    counts = []
    for there in (10, 1_000):
        for number in range(len(machine.image.topics), there):
            make(f"t{number}")
        counts.append(_calls_of(lambda there=there: make(f"new{there}")))  # type: ignore[misc]

    assert len(machine.image.topics) > 1_000
    assert counts[1] < counts[0] * 1.1 + 20
