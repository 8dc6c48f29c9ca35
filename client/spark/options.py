"""Parses and checks the options of reading, which are those of Spark's own connector. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.client.settings.config import ConsumerConfig
from ottla.client.settings.keywords import ISOLATIONS
from ottla.client.settings.spelling import one_of
from ottla.client.spark.given import Given
from ottla.client.spark.offsets import Bound, ends_of, offsets_of, partitions_of, times_of
from ottla.client.spark.reaching import OPTION, Reach
from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.ids import TopicPartition

SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
STARTS = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
STREAMING = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
READING = (
    *SUBSCRIPTIONS,
    *STARTS,
    *ENDS,
    *STREAMING,
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "groupIdPrefix",
    "commitOffsets",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    OPTION,
)
# Options of writing: an SQL table has one set for both. ``topic`` names no source.
WRITING = ("topic", "exactlyOnce", "transactionalIdPrefix", "missingLedger", "path", "queryName")

_NO_TEXT = "keys and values are bytes; cast the columns instead"
REFUSED = {
    "auto.offset.reset": "the option startingOffsets says where to begin",
    "enable.auto.commit": "the checkpoint of the query keeps its positions",
    "key.deserializer": _NO_TEXT,
    "value.deserializer": _NO_TEXT,
    "interceptor.classes": "records are read by the batch",
    "group.instance.id": "a query is no member of a group",
    "group.protocol": "a query is no member of a group",
}
GROUP_ID = "kafka.group.id"
DEFAULT_GROUP_PREFIX = "spark-kafka-source"

POLL_TIMEOUT_MS = 120_000
ATTEMPTS = 3
RETRY_MS = 1_000
TRIGGER_DELAY_MS = 15 * 60_000
# A task's records exist already. Its last request, past the range, must end soon: the next task of
# the worker waits for it.
FETCH_WAIT_MS = 10
# A task reads one partition, and fetches the next part while it works.
PARTITION_BYTES = 2 * 1024 * 1024


class Subscription(NamedTuple):
    """What to read: topics, a pattern of topics, or partitions. One is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    @property
    def option(self) -> str:
        """The name of the option that was given."""
        if self.pattern is not None:
            return "subscribePattern"
        return "subscribe" if self.topics else "assign"

    @property
    def names(self) -> list[str] | None:
        """The topics to describe; None for all."""
        if self.pattern is not None:
            return None
        return sorted({*self.topics, *(one.topic for one in self.partitions)})

    def takes(self, topic: str) -> bool:
        """Whether the subscription includes the topic."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in (self.names or ())


@dataclass(frozen=True, slots=True)
class Options:
    """All settings of reading; small, and sent to every task.

    ``end`` is None for a stream. ``max_offsets`` and similar limits are None if not given. If
    ``group_id`` is None, the group is named by ``group_prefix`` and the query's id."""

    reach: Reach
    config: ConsumerConfig
    subscription: Subscription
    start: Bound
    end: Bound | None
    late_start_is_latest: bool
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    min_partitions: int | None
    max_records: int | None
    fails_on_loss: bool
    has_headers: bool
    group_id: str | None
    group_prefix: str
    commits: bool
    poll_timeout_ms: int
    attempts: int
    retry_ms: int

    @property
    def servers(self) -> str:
        """The bootstrap addresses."""
        return self.reach.servers

    @classmethod
    def of(cls, options: Mapping[str, str], *, is_stream: bool = False) -> Options:
        """Parse Spark's options. Raises ValueError, naming the option."""
        given = Given(options)
        given.check_names((*READING, *WRITING))
        least, most = given.number("minOffsetsPerTrigger"), given.number("maxOffsetsPerTrigger")
        if least is not None and most is not None and least > most:
            raise ValueError(
                f"the option minOffsetsPerTrigger, {least}, is more than maxOffsetsPerTrigger, "
                f"{most}"
            )
        strategy = "startingOffsetsByTimestampStrategy"
        reach = Reach.of(given)
        config, group_id = _config(given)
        return cls(
            reach=reach,
            config=config,
            subscription=_subscription(given),
            start=_start(given, is_stream=is_stream),
            end=_end(given, is_stream=is_stream),
            late_start_is_latest=given.choice(strategy, ("error", "latest"), "error") == "latest",
            max_offsets=most,
            min_offsets=least,
            max_delay_ms=_or(given.duration_ms("maxTriggerDelay"), TRIGGER_DELAY_MS),
            min_partitions=given.number("minPartitions"),
            max_records=given.number("maxRecordsPerPartition"),
            fails_on_loss=given.truth("failOnDataLoss", default=True),
            has_headers=given.truth("includeHeaders", default=False),
            group_id=_group_id(given, group_id),
            group_prefix=given.text("groupIdPrefix") or DEFAULT_GROUP_PREFIX,
            commits=given.truth("commitOffsets", default=is_stream),
            poll_timeout_ms=_or(given.number("kafkaConsumer.pollTimeoutMs"), POLL_TIMEOUT_MS),
            attempts=_or(given.number("fetchOffset.numRetries"), ATTEMPTS),
            retry_ms=_or(given.number("fetchOffset.retryIntervalMs", at_least=0), RETRY_MS),
        )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _config(given: Given) -> tuple[ConsumerConfig, str | None]:
    """The consumer's settings, and the group to commit to from outside."""
    fields = given.client_fields(ConsumerConfig, REFUSED)
    group_id = fields.pop("group_id", None)
    isolation = fields.pop("isolation", "read_uncommitted")
    one_of("the option kafka.isolation.level", isolation, ISOLATIONS)
    fields = {
        "client_id": "ottla-spark",
        "fetch_wait_ms": FETCH_WAIT_MS,
        "partition_bytes_max": PARTITION_BYTES,
        **fields,
    }
    try:
        config = ConsumerConfig(offset_reset="none", isolation=ISOLATIONS[isolation], **fields)
    except (TypeError, ValueError) as error:
        raise ValueError(f"among the options kafka.*: {error}") from None
    return config, group_id


def _group_id(given: Given, group_id: str | None) -> str | None:
    if group_id is not None and given.has("groupIdPrefix"):
        raise ValueError(f"of the options {GROUP_ID} and groupIdPrefix only one can be given")
    if group_id is not None and not group_id.strip():
        raise ValueError(f"the option {GROUP_ID} is empty")
    return group_id


def _subscription(given: Given) -> Subscription:
    named = [name for name in SUBSCRIPTIONS if given.has(name)]
    if not named:
        hint = "; topic is the option for writing" if given.has("topic") else ""
        raise ValueError(
            f"one of the options {_listed(SUBSCRIPTIONS)} has to say what to read{hint}"
        )
    if len(named) > 1:
        raise ValueError(f"of the options {_listed(named)} only one can be given")
    (name,) = named
    text = given.text(name) or ""
    if name == "assign":
        return Subscription(partitions=partitions_of(name, text))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not topics:
            raise ValueError("the option subscribe names no topic")
        return Subscription(topics=topics)
    if not text.strip():
        raise ValueError("the option subscribePattern is empty")
    try:
        re.compile(text.strip())
    except re.error as error:
        raise ValueError(
            f"the option subscribePattern is no regular expression: {error}: {text!r}"
        ) from None
    return Subscription(pattern=text.strip())


def _start(given: Given, *, is_stream: bool) -> Bound:
    default = "latest" if is_stream else "earliest"
    bound = _bound(given, STARTS, default)
    if not is_stream and bound.is_latest:
        raise ValueError(f"the option {bound.option} cannot be the end of a topic in a batch query")
    return bound


def _end(given: Given, *, is_stream: bool) -> Bound | None:
    if is_stream:
        for name in ENDS:
            if given.has(name):
                raise ValueError(f"the option {name} is for batch queries: a stream has no end")
        return None
    for name in STREAMING:
        if given.has(name):
            raise ValueError(f"the option {name} is for streaming queries only")
    bound = _bound(given, ENDS, "latest")
    if bound.is_earliest:
        raise ValueError(f"the option {bound.option} cannot be the beginning of a topic")
    return bound


def _bound(given: Given, names: tuple[str, str, str], default: str) -> Bound:
    """Of the three options the first that is given counts, as in Spark's connector."""
    timestamp, by_timestamp, offsets = names
    if given.has(timestamp):
        return Bound(timestamp, time=given.number(timestamp, at_least=0))
    if given.has(by_timestamp):
        return Bound(by_timestamp, times=times_of(by_timestamp, given.text(by_timestamp) or ""))
    text = (given.text(offsets) or default).strip()
    if text.startswith("{"):
        return Bound(offsets, offsets=offsets_of(offsets, text))
    return Bound(offsets, time=ends_of(offsets, text))


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1]))
