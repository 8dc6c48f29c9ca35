"""The options of writing, checked once; every complaint is one sentence that names the option."""

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
# Spark's own, which mean nothing here. The reading side's are let through as well: a table in SQL
# has one set of options for both.
IGNORED = ("path", "checkpointLocation", "queryName", "outputMode", *READING)
REFUSED = {
    "transactional.id": "it is made of the option transactionalIdPrefix, the query and the task",
    "key.serializer": "keys are binary or string columns",
    "value.serializer": "values are binary or string columns",
}
# What Kafka's brokers allow at most: a transaction is open until its whole micro-batch is written.
TRANSACTION_TIMEOUT_MS = 900_000
DEFAULT_PREFIX = "ottla-spark"


class SinkOptions(NamedTuple):
    """How to write; small, and goes to every task."""

    reach: Reach
    config: ProducerConfig
    shape: Shape
    is_exactly_once: bool
    prefix: str
    may_begin: bool
    checkpoint: str | None

    @property
    def servers(self) -> str:
        """Where the cluster is."""
        return self.reach.servers


def sink_options(
    options: Mapping[str, str], fields: Iterable[tuple[str, str]], *, exactly_once: bool
) -> SinkOptions:
    """From Spark's options and the names and types of the columns. ``exactly_once`` is the
    default. Raises ValueError."""
    given = Given(options)
    given.check_names((*WRITING, *IGNORED))
    reach = Reach.of(given)
    is_exactly_once = given.truth("exactlyOnce", default=exactly_once)
    settings = given.client_fields(ProducerConfig, REFUSED)
    # As Spark's own connector: a topic that is missing is made, if the brokers do that.
    settings.setdefault("allow_auto_create", True)
    # A task has all of its rows at once; a slow link takes the time that it needs.
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
