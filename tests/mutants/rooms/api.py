"""Bugs in the handlers of requests, their short paths among them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "lean-produce-answers-one-record-early",
        "broker/handlers/data/produce_straight.py",
        "            (acks == ACKS_ALL and partition.replica.high_watermark < next_offset)\n",
        "            (acks == ACKS_ALL and partition.replica.high_watermark < next_offset - 1)\n",
        "acks=all is answered when every in-sync replica has the whole batch.",
        ("tests/broker/following/test_replication.py",),
    ),
    Mutant(
        "produce-skips-the-authorizer",
        "broker/handlers/appends.py",
        "    if not services.authorizer.is_allowed(caller, _WRITE, _TOPIC, topic):\n",
        "    if False:\n",
        "A producer appends only to topics that it may write.",
        ("tests/broker/handlers/data/test_straight_refusals.py",),
    ),
    Mutant(
        "produce-of-any-acks",
        "broker/handlers/appends.py",
        "    if acks not in VALID_ACKS:\n",
        "    if False:\n",
        "A produce is refused, judged, appended and waited for by the same functions, whichever "
        "codec has read it.",
        ("tests/broker/handlers/data/test_straight_refusals.py",),
    ),
    Mutant(
        "lean-produce-answers-a-time-out-with-success",
        "broker/handlers/data/produce_straight.py",
        "            if waits.error is _NONE:\n",
        "            if True:\n",
        "acks=all is refused when its time is over, whichever codec reads it.",
        ("tests/broker/following/test_replication.py",),
    ),
    Mutant(
        "lean-fetch-ignores-min-bytes",
        "broker/partitions/reading.py",
        "    return None if waits_for_bytes(region.size_bytes, wait_ms, min_bytes) else found\n",
        "    return found\n",
        "A fetch is refused, judged and read by the same functions, whichever codec has read it.",
        ("tests/broker/handlers/data/test_fetch_waiting.py",),
    ),
    Mutant(
        "lean-fetch-ignores-the-topic-id",
        "broker/handlers/data/fetch_straight.py",
        "        if by_id and partition.log.topic_id != named:\n            return None\n",
        "",
        "The lean codec's fetch reads no other topic of the name.",
        ("tests/broker/handlers/data/test_straight_refusals.py",),
    ),
    Mutant(
        "lean-fetch-skips-the-authorizer",
        "broker/handlers/data/fetch_straight.py",
        "if partition is None or not services.authorizer.is_allowed(peer, _READ, _TOPIC, topic):\n",
        "if partition is None:\n",
        "The lean codec's fetch leaves what its sender may not read to the compiled one.",
        ("tests/broker/handlers/data/test_straight_refusals.py",),
    ),
    Mutant(
        "lean-fetch-takes-any-size",
        "broker/handlers/data/fetch_straight.py",
        "        limits = min(max_bytes, services.reads.fetch_max_bytes), min_bytes, wait_ms\n",
        "        limits = max_bytes, min_bytes, wait_ms\n",
        "fetch.max.bytes of the broker limits every fetch.",
        ("tests/broker/handlers/data/test_straight_refusals.py",),
    ),
    Mutant(
        "lean-fetch-reads-uncommitted",
        "broker/handlers/data/fetch_straight.py",
        "        committed = level == _READ_COMMITTED\n",
        "        committed = False\n",
        "A fetch that the lean codec reads shows read_committed readers no open transaction.",
        (
            "tests/broker/handlers/data/test_fetch.py",
            "tests/broker/handlers/transactions/test_transactional_produce.py",
            "tests/broker/handlers/transactions/test_transactions.py",
        ),
    ),
    Mutant(
        "bytes-behind-a-request-are-refused",
        "broker/api/dispatch.py",
        "            request, _end = route.decode(frame, position)\n",
        "            request, _end = route.decode(frame, position)\n"
        "            if _end != len(frame):\n"
        '                raise RemoteProtocolError("bytes behind the request")\n',
        "The broker ignores bytes after a request.",
        ("tests/broker/api/test_dispatch.py",),
    ),
)
