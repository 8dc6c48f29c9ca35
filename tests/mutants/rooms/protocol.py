"""Bugs in codecs: what is read from bytes of others, and written for them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "answers-for-old-consumers-without-an-end",
        "protocol/message_sets/lowering.py",
        "            if len(self.data) >= plan.enough_bytes:\n                return False\n",
        "",
        "No message begins behind the first MiB of an answer for an old consumer.",
        ("tests/protocol/message_sets/test_lowering.py", "tests/broker/handlers/old"),
    ),
    Mutant(
        "offsets-before-the-first-wanted-one-in-one-step",
        "protocol/message_sets/lowering.py",
        "            # What is passed over is work, too.\n            yield None\n",
        "",
        "A step of a conversion takes about a millisecond.",
        ("tests/protocol/message_sets/test_lowering.py",),
    ),
    Mutant(
        "count-of-records-believed",
        "protocol/records/record.py",
        "    if batch.record_count * RECORD_BYTES_MIN > len(data):\n",
        "    if False:\n",
        "A decoder compares a length with the bytes that are left before it uses it.",
        ("tests/protocol/records/test_record.py",),
    ),
    Mutant(
        "look-at-a-batch-believes-its-count",
        "protocol/records/survey_pure.py",
        "    if index != count or end != size_bytes or latest",
        "    if end != size_bytes or latest",
        "A batch that one look accepts is accepted step by step, too.",
        ("tests/broker/replica/test_judging_twins.py",),
    ),
    Mutant(
        "lean-produce-with-bytes-behind-it",
        "protocol/records/straight.py",
        "        if length < 0 or len(frame) != start + length:\n",
        "        if length < 0 or len(frame) < start + length:\n",
        "The compiled reader of a small request and the plain one read the same of all bytes.",
        ("tests/protocol/records/test_straight_twins.py",),
    ),
    Mutant(
        "size-of-a-tag-believed",
        "protocol/primitives.py",
        "        if position > end:\n",
        "        if False:\n",
        "A decoder compares a length with the bytes that are left before it uses it.",
        ("tests/protocol/test_primitives.py",),
    ),
    Mutant(
        "size-of-a-string-believed",
        "protocol/primitives.py",
        "    if not 0 <= size <= STRING_BYTES_MAX or end > len(buffer):\n",
        "    if not 0 <= size <= STRING_BYTES_MAX:\n",
        "A decoder compares a length with the bytes that are left before it uses it.",
        ("tests/protocol/test_primitives.py",),
    ),
)
