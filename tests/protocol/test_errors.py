"""The table of error codes."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError, error_code


def test_the_codes_are_kafkas_without_gaps() -> None:
    """A client reads a code it does not know as a fatal error."""
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (-1, "UNKNOWN_SERVER_ERROR"),
        (0, "NONE"),
        (6, "NOT_LEADER_OR_FOLLOWER"),
        (35, "UNSUPPORTED_VERSION"),
        (56, "KAFKA_STORAGE_ERROR"),
        (74, "FENCED_LEADER_EPOCH"),
        (87, "INVALID_RECORD"),
        (100, "UNKNOWN_TOPIC_ID"),
        (120, "TRANSACTION_ABORTABLE"),
        (136, "CONTROLLER_ID_NOT_REGISTERED"),
    ],
)
def test_a_code_has_kafkas_name(number: int, name: str) -> None:
    """One row inserted in the middle would rename all after it."""
    assert ErrorCode(number).name == name
    assert error_code(number) is ErrorCode[name]


def test_a_client_that_should_refresh_may_also_retry() -> None:
    """Refreshing is what a client does before it retries."""
    refreshing = [code for code in ErrorCode if code.refresh_metadata]

    assert all(code.retriable for code in refreshing)
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in refreshing
    assert ErrorCode.NOT_CONTROLLER not in refreshing
    assert ErrorCode.NOT_CONTROLLER.retriable
    assert not ErrorCode.NONE.retriable
    assert not ErrorCode.OFFSET_OUT_OF_RANGE.retriable


def test_every_code_has_a_text_of_its_own() -> None:
    """It is what an operator reads in a log line or an error message field."""
    texts = [code.text for code in ErrorCode]

    assert all(texts)
    assert len(set(texts)) == len(texts)


def test_a_code_from_the_future_reads_as_a_server_error() -> None:
    """A newer broker may answer with one."""
    assert error_code(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_carries_its_code_and_a_message() -> None:
    """The handler answers with the code; the message goes where the version has room for one."""
    error = KafkaError(ErrorCode.INVALID_RECORD, "null key")

    assert (error.code, error.message) == (ErrorCode.INVALID_RECORD, "null key")
    assert str(error) == "INVALID_RECORD: null key"
    assert KafkaError(ErrorCode.NOT_CONTROLLER).message == ErrorCode.NOT_CONTROLLER.text
