"""docs/coming.md names what exists: in the other libraries, as they are installed, and in Ottla."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest

import ottla
import ottla.sync
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = (ROOT / "docs" / "coming.md").read_text("utf-8")
ROW = re.compile(r"^\| `([^`]+)` \| (.+) \|$", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
FOREIGN = {
    "aiokafka": (aiokafka, aiokafka.admin, aiokafka.abc),
    "confluent-kafka": (confluent_kafka, confluent_kafka.admin),
    "kafka-python": (kafka,),
}
SETTINGS = {
    field.name for kind in (ottla.ProducerConfig, ottla.ConsumerConfig) for field in fields(kind)
}
# Parts of the admin client, which ``Admin.__init__`` makes.
PARTS = ("groups", "acls", "placements")


def rows(*, settings: bool) -> Iterator[tuple[str, str, str]]:
    """The library, the name and what Ottla has instead, of one kind of table."""
    for section in TEXT.split("\n## ")[1:]:
        library = section.splitlines()[0]
        for table in section.split("\n\n"):
            if table.startswith("| setting of") == settings:
                for name, words in ROW.findall(table):
                    yield library, name, words


def resolved(where: Any, path: str) -> Any:
    """The attribute at a path of dots."""
    for name in path.split("."):
        where = getattr(where, name)
    return where


def foreign_settings(library: str) -> set[str]:
    """The keywords of its producer and consumer."""
    if library == "aiokafka":
        kinds = (aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer)
        return {name for kind in kinds for name in inspect.signature(kind.__init__).parameters}
    return {*kafka.KafkaProducer.DEFAULT_CONFIG, *kafka.KafkaConsumer.DEFAULT_CONFIG}


def knows_librdkafka(name: str) -> bool:
    """Whether it knows a property. It tells an unknown one from a bad value."""
    try:
        confluent_kafka.Consumer({"group.id": "g", name: "no such value"})
    except (confluent_kafka.KafkaException, ValueError) as error:
        return "No such configuration property" not in str(error)
    return True


@pytest.mark.parametrize(("library", "name", "words"), list(rows(settings=False)))
def test_each_method_exists_on_both_sides(library: str, name: str, words: str) -> None:
    """A table with a name that is gone sends a person looking for it."""
    assert any(
        resolved(module, name)
        for module in FOREIGN[library]
        if hasattr(module, name.partition(".")[0])
    )
    for own in CODE.findall(words):
        if not own.startswith(("Producer.", "Consumer.", "Admin.")):
            continue
        _kind, _, path = own.partition(".")
        if path.partition(".")[0] in PARTS:
            admin = ottla.Admin("127.0.0.1:1")
            assert callable(resolved(admin, path)), own
            continue
        for place in (ottla, ottla.sync):
            assert resolved(place, own) is not None, own


@pytest.mark.parametrize(("library", "name", "words"), list(rows(settings=True)))
def test_each_setting_exists_on_both_sides(library: str, name: str, words: str) -> None:
    """By the keyword of a client, or by librdkafka's name."""
    if library == "confluent-kafka":
        assert knows_librdkafka(name)
    else:
        assert name in foreign_settings(library)
    for own in CODE.findall(words):
        method, is_argument, argument = own.rstrip(")").partition("(")
        if is_argument:
            assert argument in inspect.signature(resolved(ottla, method)).parameters, own
        elif "." not in own:
            assert own in SETTINGS
        else:
            assert resolved(ottla, own) is not None, own


def test_there_are_many() -> None:
    """The pattern finds them."""
    assert {library for library, _, _ in rows(settings=False)} == set(FOREIGN)
    assert len(list(rows(settings=False))) > 75
    assert len(list(rows(settings=True))) > 60


def test_an_unknown_property_would_be_noticed() -> None:
    """The check itself."""
    assert not knows_librdkafka("no.such.name")
