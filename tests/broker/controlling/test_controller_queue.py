"""The order of a controllership's work, and the answers of commands when it resigns."""

from __future__ import annotations

import pytest

from ottla.broker.controlling.controller_queue import ControllerCommand, ControllerQueue
from ottla.coordinator.controller.events import BalanceDue, Event
from ottla.protocol.errors import ErrorCode, KafkaError


async def prepare() -> Event:
    return BalanceDue()


async def test_a_path_that_is_marked_twice_is_read_once() -> None:
    """A watch may fire for each of ten thousand changes while the controller reads the path."""
    queue = ControllerQueue()
    queue.mark("/a")
    queue.mark("/a")
    queue.put(BalanceDue())

    assert [await queue.next(), await queue.next()] == ["/a", BalanceDue()]


async def test_a_path_can_be_marked_again_once_its_turn_has_come() -> None:
    """A change during the read is missing in what was read."""
    queue = ControllerQueue()
    queue.mark("/a")
    assert await queue.next() == "/a"
    queue.mark("/a")

    assert await queue.next() == "/a"


async def test_a_closed_queue_refuses_waiting_and_later_commands() -> None:
    """Their clients have to find the next controller; a command that was taken is not answered
    here, since it may have been carried out."""
    queue = ControllerQueue()
    taken, waiting = queue.ask(prepare), queue.ask(prepare)
    item = await queue.next()
    queue.close()
    later = queue.ask(prepare)

    assert item == ControllerCommand(prepare, taken)
    assert not taken.done()
    for reply in (waiting, later):
        with pytest.raises(KafkaError) as caught:
            await reply
        assert caught.value.code is ErrorCode.NOT_CONTROLLER
