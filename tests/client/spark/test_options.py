"""The options of reading."""

from __future__ import annotations

import pickle

import pytest

from ottla.client.settings.config import Isolation
from ottla.client.spark.offsets import Bound
from ottla.client.spark.options import Options
from ottla.protocol.ids import TopicPartition

LEAST = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "a"}


def of(is_stream: bool = False, **options: str) -> Options:
    """Options with those that every query needs; two underscores replace a dot."""
    texts = {name.replace("__", "."): text for name, text in options.items()}
    return Options.of({**LEAST, **texts}, is_stream=is_stream)


def test_the_defaults_are_those_of_sparks_connector() -> None:
    """A program that changes only the name of the source must get the same records."""
    batch, stream = of(), of(is_stream=True)

    assert batch.start == Bound("startingOffsets", time=-2)
    assert batch.end == Bound("endingOffsets", time=-1)
    assert stream.start == Bound("startingOffsets", time=-1)
    assert stream.end is None
    assert batch.config.isolation is Isolation.READ_UNCOMMITTED
    assert batch.fails_on_loss
    assert stream.fails_on_loss
    assert not batch.has_headers
    assert batch.config.offset_reset == "none"


def test_names_have_no_case_and_options_travel_to_tasks() -> None:
    """Spark hands some over in lower case, and pickles what a task needs."""
    options = Options.of(
        {
            "KAFKA.bootstrap.servers": "127.0.0.1:9092",
            "SUBSCRIBE": " a , b,a",
            "maxrecordsperpartition": "7",
        }
    )

    assert options.subscription.topics == ("a", "b")
    assert options.max_records == 7
    assert pickle.loads(pickle.dumps(options)) == options


def test_client_settings_have_kafkas_names() -> None:
    """A user with a working set of properties can keep it."""
    options = of(
        kafka__isolation__level="read_committed",
        kafka__max__partition__fetch__bytes="5000",
        kafka__client__id="me",
        kafka__group__id="watched",
    )

    assert options.config.isolation is Isolation.READ_COMMITTED
    assert options.config.partition_bytes_max == 5_000
    assert options.config.client_id == "me"
    assert options.group_id == "watched"
    assert options.config.group_id is None


def test_times_come_before_offsets_as_for_sparks_connector() -> None:
    """The order of precedence is part of what users know."""
    offsets, times = '{"a": {"0": 5, "1": -2}}', '{"a": {"0": 1000}}'

    assert of(startingOffsets=offsets).start == Bound(
        "startingOffsets", offsets={TopicPartition("a", 0): 5, TopicPartition("a", 1): -2}
    )
    assert of(startingOffsets=offsets, startingOffsetsByTimestamp=times).start == Bound(
        "startingOffsetsByTimestamp", times={TopicPartition("a", 0): 1000}
    )
    assert of(startingTimestamp="9", startingOffsetsByTimestamp=times).start == Bound(
        "startingTimestamp", time=9
    )
    assert of(endingTimestamp="9").end == Bound("endingTimestamp", time=9)


def test_what_a_query_shows_as_its_progress_can_be_given_to_another() -> None:
    """A person who copies it should not have to edit it."""
    text = '{"a": {"0": 5}, "$": {"id": "1", "topics": {}, "begins": {}}}'

    assert of(startingOffsets=text).start.offsets == {TopicPartition("a", 0): 5}


def test_assign_names_partitions() -> None:
    """The option is JSON with a list for each topic."""
    options = Options.of({"bootstrapServers": "127.0.0.1:9092", "assign": '{"b": [1, 0]}'})

    assert options.subscription.partitions == (TopicPartition("b", 0), TopicPartition("b", 1))


STREAM_ONLY = "the option maxOffsetsPerTrigger is for streaming queries only"
BAD = [
    ({"subscribe": None}, "one of the options subscribe, subscribePattern and assign has to say"),
    ({"subscribe": None, "topic": "a"}, "what to read; topic is the option for writing"),
    ({"assign": "{}"}, "of the options subscribe and assign only one can be given"),
    ({"subscribe": " , "}, "the option subscribe names no topic"),
    ({"subscribe": None, "assign": "{}"}, "the option assign names no partition"),
    ({"subscribe": None, "assign": '{"a": 1}'}, r"the option assign is JSON such as \{"),
    ({"subscribe": None, "subscribePattern": "a("}, "subscribePattern is no regular expression"),
    ({"subscribe": None, "subscribePattern": " "}, "the option subscribePattern is empty"),
    ({"kafka.bootstrap.servers": None}, "the option kafka.bootstrap.servers is missing"),
    ({"kafka.bootstrap.servers": "a:b"}, "kafka.bootstrap.servers is wrong: 'a:b' is no"),
    ({"startingOffset": "latest"}, "no option 'startingoffset'; did you mean 'startingOffsets'?"),
    ({"startingOffsets": "first"}, "startingOffsets is one of 'earliest', 'latest', not 'first'"),
    ({"startingOffsets": "latest"}, "startingOffsets cannot be the end of a topic in a batch"),
    ({"startingOffsets": '{"a": {"0": -1}}'}, "startingOffsets cannot be the end of a topic"),
    ({"startingOffsets": '{"a": {"0": -3}}'}, r"the option startingOffsets is JSON such as \{"),
    ({"startingOffsets": '{"a": {"x": 3}}'}, r"the option startingOffsets is JSON such as \{"),
    ({"startingOffsets": '{"a": [3]}'}, r"the option startingOffsets is JSON such as \{"),
    ({"startingOffsets": "{"}, r"the option startingOffsets is JSON such as \{"),
    ({"endingOffsets": "earliest"}, "endingOffsets cannot be the beginning of a topic"),
    ({"startingTimestamp": "noon"}, "startingTimestamp is a whole number, not 'noon'"),
    ({"minPartitions": "0"}, "the option minPartitions is at least 1, not 0"),
    ({"maxOffsetsPerTrigger": "5"}, STREAM_ONLY),
    ({"failOnDataLoss": "no"}, "the option failOnDataLoss is true or false, not 'no'"),
    ({"kafka.isolation.level": "dirty"}, "the option kafka.isolation.level is one of"),
    ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset cannot be set: the option st"),
    ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit cannot be set"),
    ({"kafka.autooffset.reset": "latest"}, "kafka.autooffset.reset cannot be set: the option sta"),
    ({"kafka.offset_reset": "latest"}, "kafka.offset_reset cannot be set: the option startingOffs"),
    ({"kafka.interceptors": "x"}, r"among the options kafka\.\*: interceptors"),
    ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer cannot be set: keys and values are"),
    ({"kafka.max.partition.bytes": "1"}, r"among the options kafka\.\*: no setting is called"),
    ({"kafka.group.id": "g", "groupIdPrefix": "p"}, "kafka.group.id and groupIdPrefix only one"),
    ({"kafka.group.id": " "}, "the option kafka.group.id is empty"),
    ({"startingOffsetsByTimestampStrategy": "first"}, "is one of 'error', 'latest'"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD)
def test_a_bad_option_is_one_sentence(changes: dict[str, str | None], sentence: str) -> None:
    """Spark shows the message below forty lines of stack trace, so it has to name the option."""
    options = {name: text for name, text in {**LEAST, **changes}.items() if text is not None}

    with pytest.raises(ValueError, match=sentence) as caught:
        Options.of(options)

    assert "\n" not in str(caught.value)


BAD_IN_STREAMS = [
    ({"endingOffsets": "latest"}, "endingOffsets is for batch queries: a stream has no end"),
    (
        {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
        "minOffsetsPerTrigger, 9, is more than maxOffsetsPerTrigger, 5",
    ),
    ({"maxTriggerDelay": "soon"}, "the option maxTriggerDelay is a time such as 30s or 15m"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD_IN_STREAMS)
def test_a_bad_option_of_a_stream_is_one_sentence(changes: dict[str, str], sentence: str) -> None:
    """An option without meaning is refused, since the user expects it to have an effect."""
    with pytest.raises(ValueError, match=sentence):
        Options.of({**LEAST, **changes}, is_stream=True)


def test_a_trigger_is_delayed_for_as_long_as_is_said() -> None:
    """The option's values are those of Spark's connector."""
    assert of(is_stream=True).max_delay_ms == 15 * 60_000
    assert of(is_stream=True, maxTriggerDelay="30s").max_delay_ms == 30_000
    assert of(is_stream=True, maxTriggerDelay="250").max_delay_ms == 250
