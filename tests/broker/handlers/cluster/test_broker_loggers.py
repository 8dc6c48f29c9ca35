"""Log levels as settings of a broker: looked at and changed while it runs (KIP-412)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.handlers.broker_loggers import ROOT, level_name
from ottla.protocol.configs import LOGGER_RESOURCE
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tests.broker.support.requests import batch, create, fetched, produced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw_client import RawClient

LOGGER = "ottla.partitions"
REQUESTS = "ottla.requests"
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_BROKER_LOGGER_CONFIG = 6


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Loggers are the process's: what a test sets goes with it."""
    loggers = [logging.getLogger(name) for name in (ROOT, LOGGER)]
    before = [logger.level for logger in loggers]
    logging.getLogger(ROOT).setLevel(logging.INFO)
    logging.getLogger(LOGGER).setLevel(logging.NOTSET)
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


async def described(
    client: RawClient, *names: str, broker: str = "1", version: int = 4
) -> tuple[int, dict[str, Any]]:
    """The answer's error, and the loggers by their names."""
    wanted = DescribeConfigsResource(LOGGER_RESOURCE, broker, list(names) or None)
    answer = await client.call(version, DescribeConfigsRequest([wanted], include_synonyms=True))
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (LOGGER_RESOURCE, broker)
    return result.error_code, {one.name: one for one in result.configs}


async def changed(
    client: RawClient, *changes: tuple[str, int, str | None], broker: str = "1", dry: bool = False
) -> int:
    """The error of changing loggers by name, operation and level."""
    resource = incremental_alter_configs.AlterConfigsResource(
        LOGGER_RESOURCE,
        broker,
        [incremental_alter_configs.AlterableConfig(*change) for change in changes],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource], dry)
    answer = await client.call(1, request)
    return int(answer.responses[0].error_code)


async def level_of(client: RawClient, name: str = LOGGER) -> str:
    """The level that the broker reports for a logger."""
    error, found = await described(client, name)
    assert (error, list(found)) == (ErrorCode.NONE, [name])
    return str(found[name].value)


@pytest.mark.parametrize("version", [1, 4])
async def test_every_logger_of_the_broker_is_told_with_its_level(
    client: RawClient, version: int
) -> None:
    """Also those that have no level of their own: what counts is what is logged."""
    error, found = await described(client, version=version)
    partitions = found[LOGGER]

    assert error == ErrorCode.NONE
    assert {ROOT, LOGGER, "ottla.log", "ottla.network"} <= found.keys()
    assert all(name.split(".")[0] == ROOT for name in found)
    assert (partitions.value, partitions.read_only, partitions.is_sensitive) == (
        "INFO",
        False,
        False,
    )
    assert (partitions.config_source, partitions.synonyms) == (DYNAMIC_BROKER_LOGGER_CONFIG, [])


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"])
async def test_a_level_is_set_at_once_and_taken_back(client: RawClient, level: str) -> None:
    """The loggers themselves obey, without a restart; deleted, they go back to their default."""
    is_set = await changed(client, (LOGGER, SET, level))
    told = await level_of(client)
    logger = logging.getLogger(LOGGER)
    enabled = [logger.isEnabledFor(one) for one in (logging.DEBUG, logging.INFO, logging.ERROR)]
    is_deleted = await changed(client, (LOGGER, DELETE, None))

    assert (is_set, is_deleted, told) == (ErrorCode.NONE, ErrorCode.NONE, level)
    order = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"]
    assert enabled == [order.index(level) <= order.index(one) for one in ("DEBUG", "INFO", "ERROR")]
    assert logger.level == logging.NOTSET
    assert await level_of(client) == "INFO"


async def test_loggers_without_a_level_follow_their_parent(client: RawClient) -> None:
    """One change sets the level of the whole broker."""
    assert await changed(client, (ROOT, SET, "DEBUG")) == ErrorCode.NONE

    assert await level_of(client) == "DEBUG"


async def test_the_log_of_requests_begins_with_the_next_request(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Also with one of the shorter way, which looks at a flag and not at the logger."""
    await create(client)
    await produced(client, batch(b"x"))
    await fetched(client, 0)
    await changed(client, (REQUESTS, SET, "TRACE"))
    await fetched(client, 0)
    await changed(client, (REQUESTS, DELETE, None))
    await fetched(client, 0)

    told = [one.getMessage() for one in caplog.records if one.name == REQUESTS]
    assert [line.split(" version")[0] for line in told] == ["api 1", "api 44"]


async def test_a_level_that_the_start_gave_is_the_default(client: RawClient) -> None:
    """Two changes and a deletion lead back to it, not to the change in between."""
    logging.getLogger(LOGGER).setLevel(logging.ERROR)
    for level in ("DEBUG", "WARN"):
        await changed(client, (LOGGER, SET, level))
    await changed(client, (LOGGER, DELETE, None))

    assert await level_of(client) == "ERROR"


@pytest.mark.parametrize(
    ("change", "broker", "error"),
    [
        pytest.param((LOGGER, SET, "LOUD"), "1", ErrorCode.INVALID_CONFIG, id="no such level"),
        pytest.param((LOGGER, SET, "warn"), "1", ErrorCode.INVALID_CONFIG, id="small letters"),
        pytest.param((LOGGER, SET, None), "1", ErrorCode.INVALID_REQUEST, id="no level"),
        pytest.param(("nobody", SET, "INFO"), "1", ErrorCode.INVALID_CONFIG, id="no such logger"),
        pytest.param(("nobody", DELETE, None), "1", ErrorCode.INVALID_CONFIG, id="nothing to do"),
        pytest.param((ROOT, DELETE, None), "1", ErrorCode.INVALID_REQUEST, id="the parent of all"),
        pytest.param((LOGGER, APPEND, "INFO"), "1", ErrorCode.INVALID_REQUEST, id="append"),
        pytest.param((LOGGER, SUBTRACT, "INFO"), "1", ErrorCode.INVALID_REQUEST, id="subtract"),
        pytest.param((LOGGER, 9, "INFO"), "1", ErrorCode.INVALID_REQUEST, id="no operation"),
        pytest.param((LOGGER, SET, "INFO"), "2", ErrorCode.INVALID_REQUEST, id="another broker"),
        pytest.param((LOGGER, SET, "INFO"), "", ErrorCode.INVALID_REQUEST, id="all brokers"),
    ],
)
async def test_what_makes_no_sense_is_refused_and_nothing_is_changed(
    client: RawClient, change: tuple[str, int, str | None], broker: str, error: ErrorCode
) -> None:
    """The codes are Kafka's; a good change in the same request comes to nothing as well."""
    good = ("ottla.log", SET, "DEBUG")
    answer = await changed(client, good, change, broker=broker)

    assert answer == error
    assert await level_of(client, "ottla.log") == "INFO"


async def test_a_request_that_only_validates_changes_nothing(client: RawClient) -> None:
    """It still reports what is wrong."""
    right = await changed(client, (LOGGER, SET, "DEBUG"), dry=True)
    wrong = await changed(client, (LOGGER, SET, "LOUD"), dry=True)

    assert (right, wrong) == (ErrorCode.NONE, ErrorCode.INVALID_CONFIG)
    assert await level_of(client) == "INFO"


@pytest.mark.parametrize("broker", ["2", ""])
async def test_another_brokers_loggers_are_not_told(client: RawClient, broker: str) -> None:
    """Each process has its own."""
    error, found = await described(client, broker=broker)

    assert (error, found) == (ErrorCode.INVALID_REQUEST, {})


async def test_the_older_request_changes_no_loggers(client: RawClient) -> None:
    """It would have to replace all levels, and Kafka refuses it, too."""
    resource = alter_configs.AlterConfigsResource(
        LOGGER_RESOURCE, "1", [alter_configs.AlterableConfig(LOGGER, "DEBUG")]
    )
    answer = await client.call(2, alter_configs.AlterConfigsRequest([resource]))

    assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST
    assert await level_of(client) == "INFO"


@pytest.mark.parametrize(
    ("level", "name"), [(0, "TRACE"), (7, "TRACE"), (10, "DEBUG"), (25, "INFO"), (60, "FATAL")]
)
def test_a_level_between_two_words_is_told_by_the_lower_one(level: int, name: str) -> None:
    """Programs may set any number; Log4j has six words."""
    assert level_name(level) == name
