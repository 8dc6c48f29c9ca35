"""Bugs in the handlers of requests, their short paths among them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "short-produce-answers-one-record-early",
        "broker/handlers/data/produce_straight.py",
        "if acks != ACKS_ALL or partition.replica.high_watermark >= next_offset:",
        "if acks != ACKS_ALL or partition.replica.high_watermark >= next_offset - 1:",
        "acks=all on the short path is answered when every in-sync replica has the whole batch.",
        ("tests/broker/following/test_replication.py",),
    ),
    Mutant(
        "short-produce-skips-the-authorizer",
        "broker/handlers/data/produce_straight.py",
        "        if not services.authorizer.is_allowed(peer, _WRITE, _TOPIC, topic):\n"
        "            return None\n",
        "",
        "The short produce path declines what its sender may not write.",
        ("tests/broker/handlers/data/test_straight_refusals.py",),
    ),
    Mutant(
        "short-produce-of-any-acks",
        "broker/handlers/data/produce_straight.py",
        "        if partition is None or acks not in VALID_ACKS or topic in INTERNAL_TOPICS:\n",
        "        if partition is None or topic in INTERNAL_TOPICS:\n",
        "The short path of produce and fetch declines every unusual request and changes "
        "nothing then.",
        ("tests/broker/handlers/data/test_straight_refusals.py",),
    ),
    Mutant(
        "short-produce-answers-a-time-out-with-success",
        "broker/handlers/data/produce_straight.py",
        "            lambda: later.complete(self._refusal(ErrorCode.REQUEST_TIMED_OUT)),\n",
        "            lambda: later.complete(parts),\n",
        "acks=all on the short path is refused when its time is over.",
        ("tests/broker/following/test_replication.py",),
    ),
    Mutant(
        "short-fetch-ignores-min-bytes",
        "broker/handlers/data/fetch_straight.py",
        "        if region.size_bytes < min_bytes and wait_ms > 0:\n            return None\n",
        "",
        "The short fetch path declines what has to wait.",
        ("tests/broker/handlers/data/test_fetch_waiting.py",),
    ),
    Mutant(
        "short-fetch-ignores-the-topic-id",
        "broker/handlers/data/fetch_straight.py",
        "        if by_id and partition.log.topic_id != named:\n            return None\n",
        "",
        "The short fetch path reads no other topic of the name.",
        ("tests/broker/handlers/data/test_straight_refusals.py",),
    ),
    Mutant(
        "short-fetch-skips-the-authorizer",
        "broker/handlers/data/fetch_straight.py",
        "if partition is None or not services.authorizer.is_allowed(peer, _READ, _TOPIC, topic):\n",
        "if partition is None:\n",
        "The short fetch path declines what its sender may not read.",
        ("tests/broker/handlers/data/test_straight_refusals.py",),
    ),
    Mutant(
        "short-fetch-takes-any-size",
        "broker/handlers/data/fetch_straight.py",
        "        max_bytes = min(max_bytes, services.reads.fetch_max_bytes)\n",
        "",
        "fetch.max.bytes of the broker limits every fetch.",
        ("tests/broker/handlers/data/test_straight_refusals.py",),
    ),
    Mutant(
        "short-fetch-reads-uncommitted",
        "broker/handlers/data/fetch_straight.py",
        "        committed = isolation == _READ_COMMITTED\n",
        "        committed = False\n",
        "The short fetch path shows read_committed readers no open transaction.",
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
