"""The options of writing: defaults, and a sentence for each that is wrong."""

from __future__ import annotations

import pytest

from ottla.client.spark.sink_options import SinkOptions, sink_options

GOOD = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "out"}
COLUMNS = [("value", "binary")]


def parsed(**options: str) -> SinkOptions:
    return sink_options({**GOOD, **options}, COLUMNS, exactly_once=True)


def test_kafkas_own_names_configure_the_producer() -> None:
    """Programs for Spark's own connector keep their options."""
    config = parsed(**{"kafka.linger.ms": "7", "kafka.compression.type": "lz4"}).config

    assert (config.linger_ms, config.compression) == (7, "lz4")


def test_a_transaction_may_last_as_long_as_brokers_allow_by_default() -> None:
    """The transaction is open until the whole micro-batch is written; a minute would end long
    ones."""
    assert parsed().config.transaction_timeout_ms == 900_000
    short = parsed(**{"kafka.transaction.timeout.ms": "60000"})
    assert short.config.transaction_timeout_ms == 60_000
    assert parsed(exactlyOnce="false").config.transaction_timeout_ms == 60_000


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"exactlyOnce": "maybe"}, "the option exactlyOnce is true or false, not 'maybe'"),
        ({"exactlyonse": "true"}, "no option 'exactlyonse'; did you mean 'exactlyOnce'"),
        ({"missingLedger": "x"}, "missingLedger"),
        ({"transactionalIdPrefix": ""}, "the option transactionalIdPrefix is empty"),
        ({"kafka.transactional.id": "x"}, "kafka.transactional.id cannot be set"),
        ({"kafka.transactional_id": "x"}, "kafka.transactional_id cannot be set"),
        ({"kafka.bootstrap.servers": "a:b"}, "the option kafka.bootstrap.servers is wrong: 'a:b'"),
        ({"kafka.value.serializer": "x"}, "kafka.value.serializer cannot be set"),
        ({"kafka.acks": "1"}, "among the options kafka.*: .*acks"),
        ({"kafka.linger": "1"}, "among the options kafka.*: no setting is called 'linger'"),
        ({"kafka.bootstrap.servers": ""}, "the option kafka.bootstrap.servers is missing"),
    ],
)
def test_a_wrong_option_is_told_by_name(options: dict[str, str], sentence: str) -> None:
    """A mistyped option is one that silently does not hold."""
    with pytest.raises(ValueError, match=sentence):
        parsed(**options)


def test_a_weaker_acknowledgement_needs_the_weaker_promise() -> None:
    """acks=1 and a transaction exclude each other."""
    assert parsed(**{"kafka.acks": "1", "exactlyOnce": "false"}).config.acks == 1
