"""A crash at every single operation of a move to another data directory leaves one good log."""

from __future__ import annotations

import asyncio

import pytest

from tests.broker.log.crash_disk import PowerCut
from tests.broker.support.moved_log import PARTITION, MovedLog
from tests.simulation.world.random import SimRandom

FATES = ("kill", "ordered", "unordered")


async def filled() -> MovedLog:
    one = MovedLog()
    await one.start()
    await one.fill()
    for path in ("/", "/d1", "/d2", one.log.directory):
        await one.disk.fsync_directory(path)
    one.disk.before_change = one.append_meanwhile
    return one


async def operations_of_a_move() -> int:
    one = await filled()
    before = one.disk.changes
    assert await one.move()
    assert one.directory == "/d2"
    return one.disk.changes - before


@pytest.mark.parametrize("fate", FATES)
async def test_a_crash_at_any_operation_of_a_move_leaves_one_good_log(fate: str) -> None:
    """A killed process loses nothing; a machine without power nothing that was made durable."""
    count = await operations_of_a_move()
    assert count > 60
    served: set[str] = set()
    for operation in range(1, count + 1):
        one = await filled()
        one.disk.crash_at = one.disk.changes + operation
        with pytest.raises(PowerCut):
            await one.move()
        before = one.content
        next_life = one.restarted(fate, SimRandom(operation).below(1 << 30))
        await next_life.start()

        logs = next_life.logs
        assert logs.damaged == {}, operation
        after = next_life.content
        assert after == before[: len(after)], operation
        if fate == "kill":
            assert len(after) == len(before), operation
        assert next_life.log.log_end_offset >= one.promised, operation
        names = [name for name in next_life.names() if name.endswith("/orders-0")]
        assert names == [next_life.log.directory], operation
        served.add(next_life.directory)
        if operation % 5:
            continue
        # The next life can finish the move, and the one after finds its end.
        assert await next_life.move()
        last_life = next_life.restarted("kill")
        await last_life.start()
        assert last_life.content == next_life.content
        assert last_life.logs.futures.unfinished == {}
    assert served == {"/d1", "/d2"}


async def test_a_copy_that_a_crash_interrupts_is_met_again_and_made_anew() -> None:
    """Its directory is the only trace of what the administrator wanted."""
    one = await filled()
    await one.begin()
    next_life = one.restarted("kill")
    await next_life.start()

    assert next_life.logs.futures.unfinished == {PARTITION: "/d2"}
    before = next_life.names()
    assert await next_life.move()
    assert next_life.logs.futures.unfinished == {}
    await next_life.logs.tidy(0)
    assert [name.endswith("-future") for name in before] == [False, True]
    assert next_life.names() == ["/d2/orders-0"]


async def test_a_move_that_is_given_up_leaves_nothing() -> None:
    """Neither now nor for the next start."""
    one = await filled()
    await one.begin()
    await one.logs.futures.drop(PARTITION)
    await one.logs.tidy(0)

    assert one.names() == ["/d1/orders-0"]
    assert not one.log.is_moving


async def test_a_log_that_is_deleted_takes_its_copy_along() -> None:
    """A topic of the same name must not meet it."""
    one = await filled()
    one.disk.before_change = lambda: None
    future = await one.begin()
    await one.logs.delete(PARTITION)
    await one.logs.tidy(1e9)

    assert one.names() == []
    assert one.logs.futures.find(PARTITION) is None
    assert future.copy.refusal is not None


@pytest.mark.parametrize("is_the_one", [True, False])
async def test_an_interrupted_copy_goes_with_its_topic_though_its_log_has_gone(
    is_the_one: bool,
) -> None:
    """The disk of the log was replaced while the broker was down, and the topic deleted."""
    one = await filled()
    await one.begin()
    topic_id = one.log.topic_id
    assert topic_id is not None
    next_life = one.restarted("kill")
    await next_life.disk.remove_tree("/d1/orders-0")
    await next_life.start()
    before = next_life.names()
    deleted = topic_id if is_the_one else b"of a later topic"
    count = await next_life.logs.delete_topic(PARTITION, deleted)
    await next_life.logs.tidy(0)

    assert [name.endswith("-future") for name in before] == [True]
    assert count == int(is_the_one)
    assert next_life.names() == ([] if is_the_one else before)
    assert bool(next_life.logs.futures.unfinished) is not is_the_one


async def test_an_interrupted_copy_is_removed_once_when_a_deletion_meets_its_resumed_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To rename it twice would look like a failing disk and take the whole directory offline."""
    one = await filled()
    await one.begin()
    topic_id = one.log.topic_id
    assert topic_id is not None
    next_life = one.restarted("kill")
    await next_life.start()
    rename = next_life.disk.rename

    async def slow_rename(source: str, target: str) -> None:
        await asyncio.sleep(0)
        await rename(source, target)

    monkeypatch.setattr(next_life.disk, "rename", slow_rename)
    logs = next_life.logs
    count, _ = await asyncio.gather(
        logs.futures.forget_deleted(PARTITION, topic_id),
        logs.futures.forget_unfinished(PARTITION),
    )
    await logs.tidy(0)

    assert count == 1
    assert [each.home.health.is_online for each in logs.directories] == [True, True]
    assert next_life.names() == ["/d1/orders-0"]
    assert logs.futures.unfinished == {}
