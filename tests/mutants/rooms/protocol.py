"""Bugs in codecs: what is read from bytes of others, and written for them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "count-of-records-believed",
        "protocol/records/record.py",
        "    if batch.record_count * RECORD_BYTES_MIN > len(data):\n",
        "    if False:\n",
        "A decoder compares a length with the bytes that are left before it uses it.",
        ("tests/protocol/records/test_record.py",),
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
