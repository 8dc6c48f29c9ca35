"""No password and no content of a znode is in the log, however much kazoo is asked to tell."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from kazoo.loggingsupport import BLATHER
from kazoo.protocol import serialization as requests
from kazoo.protocol.connection import ConnectionHandler

from ottla.coordinator.store.zookeeper_client import logger

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "very-secret"


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """kazoo's own, which sends to nowhere and tells all that it can."""
    made: Any = ConnectionHandler.__new__(ConnectionHandler)
    made.logger = logger
    monkeypatch.setattr(made, "_write", lambda *_message: None)
    level = logger.level
    logger.setLevel(BLATHER)
    yield made
    logger.setLevel(level)


@pytest.mark.parametrize(
    "request_of",
    [
        lambda: requests.Auth(0, "digest", f"zookeeper:{SECRET}"),
        lambda: requests.Connect(0, 0, 1_000, 7, SECRET.encode(), False),
        lambda: requests.Create("/config/users/alice", SECRET.encode(), [], 0),
        lambda: requests.SetData("/config/users/alice", SECRET.encode(), -1),
        lambda: requests.Transaction([requests.Create("/a", SECRET.encode(), [], 0)]),
    ],
)
def test_what_is_sent_to_zookeeper_is_not_shown(
    connection: Any, caplog: pytest.LogCaptureFixture, request_of: Any
) -> None:
    """Neither with --verbose nor after AlterConfigs of the logger's level."""
    request = request_of()
    with caplog.at_level(BLATHER):
        connection._submit(request, 1, 3)
    assert type(request).__name__ in caplog.text
    assert SECRET not in caplog.text


def test_what_zookeeper_answers_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    """kazoo gives a znode's data and its state as a pair, those of transactions as a list."""
    with caplog.at_level(logging.DEBUG):
        logger.debug("Received response(xid=%s): %r", 1, (SECRET.encode(), object()))
        logger.debug("Received response(xid=%s): %r", 1, [(SECRET.encode(), "/a")])
    assert "11 bytes" in caplog.text
    assert SECRET not in caplog.text
