"""Which offsets a load reads, decided from stored manifests and the log."""

from __future__ import annotations

import re
import shlex

import pytest

from ottla.client.cli.parsers.spark import parser
from ottla.client.spark.jobs.errors import JobRefused
from ottla.client.spark.jobs.load import cut_off
from ottla.client.spark.jobs.manifest import (
    Manifest,
    Offsets,
    Range,
    merged,
    next_ranges,
    replaced,
    stored_ends,
    touched,
)
from ottla.protocol.ids import TopicPartition
from tests.tidy.tree import ROOT

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_manifest_survives_its_file() -> None:
    """The manifest is the only state of a load."""
    one = Manifest(7, {ONE: Range(3, 9), TWO: Range(0, 1)}, 7, (5, 6), "day", {"t": "x"})

    assert Manifest.read(one.text()) == one
    assert Manifest.read(one.text().replace('"window": "day",', "")) == one._replace(window=None)
    for text in ("{}", "[]", '{"offsets": 1}'):
        with pytest.raises(ValueError, match="is not what a load has written"):
            Manifest.read(text)


def test_a_load_reads_from_what_is_stored_up_to_what_is_there() -> None:
    """Partitions with nothing new cost no task."""
    now = Offsets({ONE: 0, TWO: 2}, {ONE: 5, TWO: 9}, {ONE: 5, TWO: 9})

    assert next_ranges({ONE: 5}, now, may_lose=False) == {TWO: Range(2, 9)}


def test_an_earlier_stop_than_what_is_loaded_reads_nothing() -> None:
    """The load of yesterday, made again today."""
    now = Offsets({ONE: 0}, {ONE: 9}, {ONE: 4})

    assert next_ranges({ONE: 7}, now, may_lose=False) == {}


def test_holes_and_other_topics_are_refused() -> None:
    """Neither may pass for a load that went well."""
    gone = Offsets({ONE: 6}, {ONE: 9}, {ONE: 9})
    with pytest.raises(JobRefused, match="offsets 4 to 5 are gone"):
        next_ranges({ONE: 4}, gone, may_lose=False)
    assert next_ranges({ONE: 4}, gone, may_lose=True) == {ONE: Range(6, 9)}

    anew = Offsets({ONE: 0}, {ONE: 3}, {ONE: 3})
    with pytest.raises(JobRefused, match="another topic of that name"):
        next_ranges({ONE: 4}, anew, may_lose=False)


def test_a_cut_takes_up_what_lies_before_it() -> None:
    """Loads wholly before it stay as they are; the others are merged with what is loaded again."""
    loads = [
        Manifest(1, {ONE: Range(0, 4)}, 4),
        Manifest(2, {ONE: Range(4, 8), TWO: Range(0, 2)}, 6),
        Manifest(3, {TWO: Range(2, 5)}, 3),
    ]
    cuts = {ONE: 6, TWO: 2}
    old = touched(loads, cuts)
    assert [load.number for load in old] == [2, 3]
    kept = [cut_off(load, cuts) for load in old]

    whole = merged(kept, {ONE: Range(6, 9), TWO: Range(2, 7)})

    assert whole == {ONE: Range(4, 9), TWO: Range(0, 7)}
    assert replaced([Manifest(4, whole, 0, (2, 3))]) == {2, 3}
    assert stored_ends([loads[0], Manifest(4, whole, 0)]) == {ONE: 9, TWO: 7}


def test_the_commands_of_the_page_are_commands() -> None:
    """Commands that a reader copies from the page have to work."""
    text = (ROOT / "docs" / "pipelines.md").read_text("utf-8")
    lines = re.findall(r"^ottla spark (.*)$", text, re.MULTILINE)

    verbs = [parser().parse_args(shlex.split(line)).verb for line in lines]

    assert verbs == ["load", "copy", "transform", "aggregate"]
    files = re.findall(r"`(examples/[\w/]+\.py)`", text)
    assert len(files) == 9
    assert [name for name in files if not (ROOT / name).exists()] == []
