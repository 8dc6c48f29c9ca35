"""Messages between a session and the process that serves the store, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.store.served import messages
from ottla.coordinator.store.served.messages import (
    BadMessage,
    CloseRequest,
    Inbox,
    Open,
    Opened,
    SessionOver,
)
from ottla.coordinator.store.store import (
    AnswerUnreadable,
    BadVersion,
    Check,
    Create,
    Created,
    Delete,
    GroupFailed,
    NoNode,
    Replace,
    Stat,
    StoreError,
    WatchEvent,
    WatchEventKind,
    Znode,
)
from ottla.coordinator.store.zookeeper_requests import (
    Answered,
    Children,
    Exists,
    Get,
    MultiOperation,
    Sync,
)

if TYPE_CHECKING:
    from ottla.coordinator.store.zookeeper_requests import Request

STAT = Stat(1, 2, 3, 4, 5, 6, 7)
ALL_BYTES = bytes(range(256))
REQUESTS: list[Request] = [
    Create("/ä", ALL_BYTES, ephemeral=True, sequential=True),
    Replace("/a", ALL_BYTES, 3),
    Delete("/a", 4),
    Get("/a", watched=True),
    Exists("/a"),
    Children("/", watched=True),
    Sync("/"),
    MultiOperation((Check("/a", 1), Create("/b"), Replace("/a", b"\n"), Delete("/c"))),
]


def through(message: bytes) -> list[object]:
    """What the other side receives, cut at every byte."""
    inbox = Inbox()
    found = [
        one for at in range(len(message)) for one in inbox.take(memoryview(message)[at : at + 1])
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_a_request_arrives_as_it_was_sent(request_: Request) -> None:
    """Bytes of znodes are any bytes."""
    assert messages.decode_request(through(messages.encode_request(request_))) == request_


def test_sessions_begin_and_end() -> None:
    """The messages that are no requests."""
    wanted = Open(7, 18_000, 3)

    assert messages.decode_request(through(messages.encode_open(wanted))) == wanted
    assert messages.decode_request(through(messages.encode_close())) == CloseRequest()


RESULTS: list[tuple[Request, object]] = [
    (Get("/a"), Znode(ALL_BYTES, STAT)),
    (Create("/a"), Created("/a0", STAT)),
    (Exists("/a"), STAT),
    (Exists("/a"), None),
    (Replace("/a", b""), STAT),
    (Delete("/a"), None),
    (Children("/"), ["a", "b"]),
    (Sync("/"), None),
    (MultiOperation(()), ["/a", STAT, None]),
]


@pytest.mark.parametrize(("request_", "result"), RESULTS)
def test_a_result_arrives_with_its_type(request_: Request, result: object) -> None:
    """The session compares versions of a Stat and reads its owner."""
    told = messages.decode_told(through(messages.encode_result(result)), request_)

    assert told == Answered(result, None)
    assert isinstance(told, Answered)
    assert type(told.result) is type(result)


def test_an_error_arrives_with_its_type() -> None:
    """Callers tell errors apart by their class."""
    told = messages.decode_told(through(messages.encode_error(NoNode("/a"))), Get("/a"))

    assert isinstance(told, Answered)
    assert type(told.error) is NoNode
    assert str(told.error) == "/a"


def test_an_error_of_a_newer_store_is_an_error() -> None:
    """A refusal is never taken for a result."""
    told = messages.decode_told(["error", "Unheard", "of"], Get("/a"))

    assert isinstance(told, Answered)
    assert type(told.error) is StoreError


def test_a_refused_group_says_which_operation_was_at_fault() -> None:
    """Each entry has its own error."""
    failed = GroupFailed(1, BadVersion("/b"), 3)

    told = messages.decode_told(through(messages.encode_error(failed)), MultiOperation(()))

    assert isinstance(told, Answered)
    assert isinstance(told.error, GroupFailed)
    assert (told.error.index, len(told.error.errors)) == (1, 3)
    assert type(told.error.error) is BadVersion


def test_events_need_no_open_request() -> None:
    """Events come between answers."""
    event = WatchEvent(WatchEventKind.CHILDREN, "/a")

    assert messages.decode_told(through(messages.encode_event(event)), None) == event
    assert messages.decode_told(through(messages.encode_opened(Opened(1, 2))), None) == Opened(1, 2)
    assert messages.decode_told(through(messages.encode_ended("x")), None) == SessionOver("x")


@pytest.mark.parametrize(
    "message",
    [["answer", None], ["unheard"], ["opened"], ["event", "seen", "/a"], ["ended"]],
)
def test_an_unreadable_message_ends_the_connection(message: list[object]) -> None:
    """It is never taken for an answer."""
    with pytest.raises(BadMessage):
        messages.decode_told(message, None)


def test_an_unreadable_answer_is_told_to_its_caller() -> None:
    """The operation may be done: the caller looks."""
    told = messages.decode_told(["answer", ["x"]], Get("/a"))

    assert isinstance(told, Answered)
    assert isinstance(told.error, AnswerUnreadable)


@pytest.mark.parametrize(
    "message",
    [["get"], ["unheard"], ["multi"], ["multi", [["x"]]], ["create", "/a", 1], ["open", 1, "x"]],
)
def test_an_unreadable_request_ends_the_connection(message: list[object]) -> None:
    """Nothing of it is done."""
    with pytest.raises(BadMessage):
        messages.decode_request(message)


def test_a_process_of_another_version_is_refused() -> None:
    """After an update brokers may be started again before the process that has the store."""
    with pytest.raises(BadMessage, match="format 2"):
        messages.decode_request(["open", messages.FORMAT + 1, 0, 1, 1])


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\1x", b"\0\0\0\2{}", b"\0\0\0\2[]"])
def test_bytes_that_are_no_message_end_the_connection(data: bytes) -> None:
    """A length that no message has takes no memory."""
    with pytest.raises(BadMessage):
        Inbox().take(memoryview(data))
