"""Parses and checks the options of writing; every error is one sentence that names the option."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.client.settings.config import ProducerConfig
from ottla.client.spark.given import Given
from ottla.client.spark.options import READING
from ottla.client.spark.reaching import Reach
from ottla.client.spark.sink_rows import Shape, shape_of
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

WRITING = ("topic", "exactlyOnce", "transactionalIdPrefix", "missingLedger")
# Spark's own options, which have no effect here. Options of reading are allowed as well: an SQL
# table has one set for both.
IGNORED = ("path", "checkpointLocation", "queryName", "outputMode", *READING)
REFUSED = {
    "transactional.id": "it is made of the option transactionalIdPrefix, the query and the task",
    "key.serializer": "keys are binary or string columns",
    "value.serializer": "values are binary or string columns",
}
# The largest timeout that Kafka's brokers allow by default: a transaction is open until its whole
# micro-batch is written.
TRANSACTION_TIMEOUT_MS = 900_000
DEFAULT_PREFIX = "ottla-spark"


class SinkOptions(NamedTuple):
    """All settings of writing; small, and sent to every task."""

    reach: Reach
    config: ProducerConfig
    shape: Shape
    is_exactly_once: bool
    prefix: str
    may_begin: bool
    checkpoint: str | None

    @property
    def servers(self) -> str:
        """The bootstrap addresses."""
        return self.reach.servers


def sink_options(
    options: Mapping[str, str], fields: Iterable[tuple[str, str]], *, exactly_once: bool
) -> SinkOptions:
    """Parse Spark's options, with the names and types of the columns. ``exactly_once`` is the
    default. Raises ValueError."""
    given = Given(options)
    given.check_names((*WRITING, *IGNORED))
    reach = Reach.of(given)
    is_exactly_once = given.truth("exactlyOnce", default=exactly_once)
    settings = given.client_fields(ProducerConfig, REFUSED)
    # As in Spark's own connector, a missing topic is created if the brokers allow it.
    settings.setdefault("allow_auto_create", True)
    # A task has all its rows at once; a slow link gets the time it needs.
    settings.setdefault("delivery_waits_for_progress", True)
    if is_exactly_once:
        settings.setdefault("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
    try:
        config = ProducerConfig(**settings)
        if is_exactly_once:
            config = replace(config, transactional_id="checked here")
            config = replace(config, transactional_id=None)
    except (TypeError, ValueError) as error:
        raise ValueError(f"among the options kafka.*: {error}") from None
    prefix = given.text("transactionalIdPrefix")
    if prefix is not None and not prefix.strip():
        raise ValueError("the option transactionalIdPrefix is empty")
    missing = given.choice("missingLedger", ("fail", "begin"), "fail")
    return SinkOptions(
        reach,
        config,
        shape_of(fields, given.text("topic")),
        is_exactly_once,
        prefix or DEFAULT_PREFIX,
        missing == "begin",
        given.text("checkpointLocation"),
    )
