"""Bugs in the handlers of requests, their short paths among them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "short-produce-answers-one-record-early",
        "broker/api/produce_straight.py",
        "if acks != ACKS_ALL or partition.replica.high_watermark >= next_offset:",
        "if acks != ACKS_ALL or partition.replica.high_watermark >= next_offset - 1:",
        "acks=all on the short path is answered when every in-sync replica has the whole batch.",
        ("tests/broker/api/test_replication.py",),
    ),
)
