"""Requests and answers byte by byte, also those that no server should give."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.store.store import (
    AnswerUnreadable,
    BadVersion,
    Check,
    ConnectionLoss,
    Create,
    Delete,
    GroupFailed,
    Replace,
    Stat,
)
from ottla.coordinator.store.zookeeper_requests import Children, Exists, Get, MultiOperation, Sync
from ottla.coordinator.store.zookeeper_wire import ZooKeeperRequests, error_of, result_of

if TYPE_CHECKING:
    from ottla.coordinator.store.zookeeper_requests import Request

CREATE, DELETE, SET_DATA, CHECK, CREATE2, ERROR = 1, 2, 5, 13, 15, -1
# czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, data length, children, pzxid.
STAT = struct.pack("!qqqqiiiqiiq", 7, 8, 1_700, 1_700, 3, 0, 0, 0, 1, 0, 7)
SEEN = Stat(7, 8, 3, 0, 0, 0, 1_700)
OPERATIONS = (Create("/a", b"x"), Replace("/b", b"y", 2), Check("/c", 1), Delete("/d"))


def entry(kind: int, body: bytes = b"") -> bytes:
    """One operation's result within a group's answer."""
    return struct.pack("!iBi", kind, 0, 0) + body


def refusal(code: int) -> bytes:
    return entry(ERROR, struct.pack("!i", code))


def text(path: str) -> bytes:
    return struct.pack("!i", len(path)) + path.encode()


END = struct.pack("!iBi", -1, 1, -1)
PATH_ALONE = entry(CREATE, text("/a"))
OTHERS = entry(SET_DATA, STAT) + entry(CHECK) + entry(DELETE)


def read(request: Request, answer: bytes) -> object:
    """As kazoo hands it on: behind a header."""
    head = b"head"
    message = ZooKeeperRequests(lambda _event: None, "", has_acl=False).request(request)
    return result_of(request, message.deserialize(head + answer, len(head)))


def test_groups_create_by_the_call_that_every_version_answers_alike() -> None:
    """ZooKeeper before 3.7.2, and 3.8.0, answered create2 in a group by a path without a stat."""
    wire = ZooKeeperRequests(lambda _event: None, "", has_acl=False)
    created = Create("/a", b"x", ephemeral=True)
    sent = wire.request(MultiOperation((created,))).serialize()

    assert sent.startswith(struct.pack("!iBi", CREATE, 0, -1) + text("/a"))
    assert sent.endswith(struct.pack("!i", 1) + END)
    # By itself it is answered with the stat.
    assert wire.request(created).type == CREATE2


def test_a_path_alone_is_a_whole_answer() -> None:
    """All that every version tells of what a group has created."""
    assert read(MultiOperation(OPERATIONS), PATH_ALONE + OTHERS + END) == ["/a", SEEN, None, None]


def test_an_answer_of_no_operations_is_none() -> None:
    """An empty group is answered, too."""
    assert read(MultiOperation(()), END) == []


def test_the_refused_operation_of_a_group_is_found() -> None:
    """Those before it were rolled back, those behind it not tried."""
    answer = refusal(0) + refusal(-103) + refusal(-2) + refusal(-2) + END
    with pytest.raises(GroupFailed) as failed:
        read(MultiOperation(OPERATIONS), answer)

    assert failed.value.index == 1
    assert isinstance(failed.value.error, BadVersion)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(END, id="no results"),
        pytest.param(PATH_ALONE + OTHERS, id="no end"),
        pytest.param(PATH_ALONE + entry(SET_DATA, STAT) + END, id="too few"),
        pytest.param(PATH_ALONE + OTHERS + entry(CHECK) + END, id="too many"),
        pytest.param(entry(CREATE2, text("/a") + STAT) + OTHERS + END, id="another call's"),
        pytest.param(entry(CREATE, text("/a") + STAT) + OTHERS + END, id="a stat too many"),
        pytest.param(PATH_ALONE + entry(SET_DATA) + entry(CHECK) + END, id="a stat too few"),
        pytest.param(entry(CREATE, struct.pack("!i", -1)) + OTHERS + END, id="no path"),
        pytest.param(entry(99) + OTHERS + END, id="an unknown type"),
        pytest.param(OTHERS + PATH_ALONE + END, id="another order"),
        pytest.param(PATH_ALONE + refusal(-103) + entry(CHECK) + entry(DELETE) + END, id="mixed"),
    ],
)
def test_a_group_that_is_answered_strangely_is_an_unreadable_answer(answer: bytes) -> None:
    """A sentence that names the versions that work, and no error of a parser."""
    with pytest.raises(AnswerUnreadable, match=r"MultiOperation cannot be read .*3\.5 to 3\.9"):
        read(MultiOperation(OPERATIONS), answer)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (Get("/a"), text("x")),
        (Get("/a"), b"\xff\xff"),
        (Exists("/a"), STAT[:-1]),
        (Children("/a"), struct.pack("!i", 3) + text("b")),
        (Create("/a"), text("/a")),
        (Replace("/a", b""), b""),
    ],
)
def test_a_single_answer_that_is_cut_short_is_unreadable(request_: Request, answer: bytes) -> None:
    """The next answer on the connection would be read from the middle of something."""
    with pytest.raises(AnswerUnreadable, match=f"{type(request_).__name__} cannot be read"):
        read(request_, answer)


@pytest.mark.parametrize(
    "request_", [*OPERATIONS[:2], Get("/"), Children("/"), MultiOperation(OPERATIONS)]
)
@pytest.mark.parametrize("answer", [None, 5, "x", ()])
def test_what_is_no_answer_at_all_is_unreadable(request_: Request, answer: object) -> None:
    """Whatever a library makes of the bytes."""
    with pytest.raises(AnswerUnreadable):
        result_of(request_, answer)


def test_a_failure_that_is_no_refusal_takes_the_connection_with_it() -> None:
    """Nothing that follows on it could be trusted."""
    error = error_of(Sync("/"), ValueError("odd"))

    assert isinstance(error, AnswerUnreadable)
    assert isinstance(error, ConnectionLoss)
    assert "odd" in str(error)
