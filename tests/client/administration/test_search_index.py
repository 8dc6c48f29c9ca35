"""The example of an index that keeps its own offset."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING

import pytest

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.sync.admin import Admin
from ottla.client.sync.producer import Producer
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

TOPIC = "texts-to-be-found"


@pytest.fixture
def example() -> ModuleType:
    spec = spec_from_file_location(
        "search_index", ROOT / "examples" / "programs" / "search_index.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.requirement("CON-26")
def test_segments_that_were_not_flushed_are_indexed_again_and_the_others_are_not(
    broker: str, example: ModuleType, tmp_path: Path
) -> None:
    """A position that the broker keeps would be ahead of the index, or behind it."""
    with Admin(broker) as admin:
        admin.create_topic(NewTopic(TOPIC, 1))
    with Producer(broker) as producer:
        texts = [b"word%d and others" % (number % 7) for number in range(250)]
        producer.send_batch(TOPIC, texts, partition=0).result()
    lost = example.Index(tmp_path)
    example.follow(broker, TOPIC, lost)
    # The process dies here: two segments are on disk, fifty records were in memory.
    assert lost.next_offset == 250
    assert len(lost.find("and")) == 200

    index = example.Index(tmp_path)
    assert index.next_offset == 200
    example.follow(broker, TOPIC, index)
    index.flush()

    assert index.find("and") == list(range(250))
    assert index.find("word3") == list(range(3, 250, 7))
