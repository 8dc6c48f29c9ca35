"""A produced batch is judged alike in one look, compiled or plain, and step by step.

``judge_produced`` first asks for a survey of header, checksum and records in one call, and goes
through its own steps only for what that does not accept. Batches are drawn, many of them spoiled
under a right checksum, and judged by all three ways.
"""

from __future__ import annotations

import importlib
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.replica.append import AppendRules, judge_produced
from ottla.protocol.records import survey, survey_pure
from ottla.protocol.records.batch import CRC_END, HEADER_BYTES, RecordBatch, refresh_crc
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.survey import COMPILED_NAME, SurveyTwin
from tests.protocol.records.broken import BROKEN, batch_around
from tests.protocol.records.twins import exact, has_compiler

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_700_000_000_000
TIMES = (-1, -2, 0, NOW, NOW - 1, NOW - 10**9, NOW + 3_600_000, NOW + 3_600_001, 2**62)
# Where the fields of a header begin that a broker reads, and values that they are often wrong by.
PLACES = (0, 8, 11, 12, 16, 17, 21, 22, 23, 26, 27, 34, 35, 42, 43, 50, 51, 53, 56, 57, 60)
BYTES = (0, 1, 2, 3, 8, 16, 32, 64, 0x7F, 0x80, 0xFF)
RULES = (
    AppendRules(),
    AppendRules(),
    AppendRules(max_message_bytes=150),
    AppendRules(segment_bytes=150),
    AppendRules(is_compacted=True),
    AppendRules(uses_append_time=True),
    AppendRules(timestamp_before_max_ms=1000),
    AppendRules(timestamp_after_max_ms=0),
    AppendRules(codec=Codec.GZIP),
    AppendRules(validates=False),
)

try:
    COMPILED: SurveyTwin | None = importlib.import_module(COMPILED_NAME)
except ImportError:
    COMPILED = None


def drawn_batch(draw: Random) -> bytes:
    """A batch of an ordinary producer, or one that is nearly that."""
    if draw.random() < 0.1:
        count, payload = draw.choice(list(BROKEN.values()))
        return batch_around(payload, count)
    entries = [
        (
            draw.choice(TIMES) if draw.random() < 0.2 else NOW - draw.randrange(100),
            draw.choice((None, b"", b"key")),
            draw.choice((None, bytes(draw.randrange(200)))),
            (("header", b"value"),) if draw.random() < 0.05 else (),
        )
        for _ in range(draw.choice((1, 1, 2, 5)))
    ]
    has_id = draw.random() < 0.3
    options = BatchOptions(
        codec=Codec.GZIP if draw.random() < 0.05 else Codec.NONE,
        producer_id=draw.choice((0, 5, 2**62)) if has_id else -1,
        producer_epoch=0 if has_id else -1,
        base_sequence=draw.choice((0, 7, 2**31 - 1, -1)) if draw.random() < 0.4 or has_id else -1,
        is_transactional=draw.random() < 0.05,
    )
    return encode_batch(entries, options)


def spoiled(draw: Random, content: bytes) -> bytes:
    """In two thirds of the draws with something wrong, mostly under a right checksum."""
    batch, kind = bytearray(content), draw.randrange(6)
    if kind < 2:
        for _ in range(draw.randint(1, 2)):
            batch[draw.choice(PLACES)] = draw.choice(BYTES)
    elif kind == 2 and len(batch) > HEADER_BYTES:
        batch[draw.randrange(CRC_END, len(batch))] ^= 1 << draw.randrange(8)
    elif kind == 3:
        if draw.random() < 0.5:
            del batch[draw.randrange(len(batch)) :]
        else:
            batch += draw.choice((b"\0", bytes(70), content))
    if kind < 3 and draw.random() < 0.7:
        length = int.from_bytes(batch[8:12], signed=True)
        if length == len(batch) - 12:
            refresh_crc(batch, 0)
    return bytes(batch)


def raw(judged: object) -> object:
    """All that a verdict says, comparable by value."""
    if isinstance(judged, RecordBatch):
        values = {name: getattr(judged, name) for name in RecordBatch.__slots__}
        return {**values, "buffer": bytes(judged.buffer)}
    if isinstance(judged, tuple):
        return type(judged), tuple(map(raw, judged))
    return judged


def judged_by(survey_batch: Any, *arguments: Any) -> object:
    """The verdict where the survey is made by that function."""
    kept = survey.survey_batch
    survey.survey_batch = survey_batch
    try:
        return raw(judge_produced(*arguments))
    finally:
        survey.survey_batch = kept


def compare(seed: int, count: int) -> tuple[int, int]:
    """Judge the batches of a seed in all ways; the numbers of those accepted and surveyed."""
    draw = Random(seed)
    ways: list[Callable[[memoryview], Any]] = [survey_pure.survey_batch]
    if COMPILED is not None:
        ways.append(COMPILED.survey_batch)
    accepted = surveyed = 0
    for turn in range(count):
        content, rules = spoiled(draw, drawn_batch(draw)), draw.choice(RULES)
        version = draw.choice((3, 7, 9))
        view = exact(content)
        found = [way(view) for way in ways]
        assert found == [found[0]] * len(ways), (seed, turn, content)
        surveyed += found[0] is not None
        wanted = judged_by(_nothing, view, rules, version, NOW)
        for way in ways:
            judged = judged_by(way, view, rules, version, NOW)
            assert judged == wanted, (seed, turn, rules, content)
        accepted += isinstance(wanted, dict)
    return accepted, surveyed


def _nothing(_data: memoryview) -> None:
    """A survey that accepts no batch."""


@pytest.mark.parametrize("seed", range(2))
def test_all_ways_judge_a_batch_alike(seed: int) -> None:
    """A batch that one look accepts and the steps refuse would stop every consumer."""
    accepted, surveyed = compare(seed, 5_000)

    assert accepted > 500
    assert surveyed > 1_000


@pytest.mark.soak
def test_all_ways_judge_a_million_batches_alike() -> None:
    """What ten thousand batches do not show."""
    accepted, surveyed = compare(99, 1_000_000)

    assert accepted > 100_000
    assert surveyed > 200_000


def test_the_look_is_compiled_where_it_could_be() -> None:
    """Each produce would cost half a microsecond more."""
    assert hasattr(COMPILED, "survey_batch") or not has_compiler(), "install again (make)"
