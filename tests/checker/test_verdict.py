"""Every anomaly planted, beside what looks like it and is none: who checks the checker."""

from __future__ import annotations

import io
import time

import pytest

from tests.checker.history import Call, Read, Recorder, Sent, as_line, read_lines
from tests.checker.stories import FAIL, INFO, OK, Story, perfect_story
from tests.checker.verdict import judge

X1, X2, X3 = Sent("x", 1, 0), Sent("x", 2, 1), Sent("x", 3, 3)
R1, R2, R3 = Read("x", 0, 1), Read("x", 1, 2), Read("x", 3, 3)


def written() -> Story:
    return Story().send(0, X1, X2, X3)


def concurrent() -> Story:
    story = Story()
    late, early = Sent("x", 1, 5), Sent("x", 2, 3)
    story.begin(0, Call.SEND, [late])
    story.begin(2, Call.SEND, [early])
    story.end(0, OK, Call.SEND, [late])
    story.end(2, OK, Call.SEND, [early])
    return story.poll(1, Read("x", 3, 2), Read("x", 5, 1))


CASES: dict[str, tuple[Story, set[str]]] = {
    "clean, with a gap": (written().poll(1, R1, R2, R3), set()),
    "aborted read": (
        Story().send(0, Sent("x", 1), kind=FAIL).poll(1, R1),
        {"G1a"},
    ),
    "an aborted transaction's read of an aborted value": (
        Story().send(0, Sent("x", 1), kind=FAIL).poll(1, R1, kind=FAIL),
        set(),
    ),
    "lost write": (
        written().poll(1, R1).poll(2, R3),
        {"lost-write", "unseen"},
    ),
    "a tail that was not read is unseen, not lost": (written().poll(1, R1), {"unseen"}),
    "an unknown write that nobody saw": (
        Story().send(0, Sent("x", 9), kind=INFO).send(0, X1).poll(1, R1),
        set(),
    ),
    "torn: half of an unknown transaction": (
        Story()
        .transact(0, Sent("x", 1), Sent("y", 2, 0), kind=INFO)
        .send(3, Sent("y", 5, 1))
        .poll(1, R1, Read("y", 1, 5)),
        {"lost-write"},
    ),
    "torn, with no offset known": (
        Story()
        .transact(0, Sent("x", 1), Sent("y", 2), kind=INFO)
        .send(3, Sent("y", 5, 1))
        .poll(1, R1, Read("y", 1, 5)),
        {"lost-write"},
    ),
    "an unknown transaction of which nothing was seen": (
        Story()
        .transact(0, Sent("x", 1), Sent("y", 2, 0), kind=INFO)
        .send(3, Sent("y", 5, 1))
        .poll(1, Read("y", 1, 5)),
        set(),
    ),
    "sends that are no transaction stand alone": (
        Story()
        .send(0, Sent("x", 1), Sent("y", 2), kind=INFO)
        .send(3, Sent("y", 5, 1))
        .poll(1, R1, Read("y", 1, 5)),
        set(),
    ),
    "one offset, two values": (
        Story().send(0, X1).send(2, Sent("x", 2, 0)).poll(1, R1),
        {"inconsistent-offsets", "unseen", "realtime-inversion", "lost-write"},
    ),
    "an unknown write may claim any offset": (
        Story().send(0, X1, kind=INFO).send(2, Sent("x", 2, 0)).poll(1, Read("x", 0, 2)),
        set(),
    ),
    "duplicate": (
        Story().send(0, X1).poll(1, R1, Read("x", 4, 1)),
        {"duplicate", "int-nonmonotonic-poll"},
    ),
    "own write read": (Story().transact(0, X1, read=[R1]), {"precommitted-read"}),
    "phantom": (Story().poll(1, Read("x", 0, 77)), {"phantom"}),
    "poll skip": (written().poll(1, R1).poll(1, R3).poll(2, R2), {"poll-skip"}),
    "a new assignment forgets the position": (
        written().poll(1, R1).assign(1, "y").poll(1, R3).poll(2, R2),
        set(),
    ),
    "an aborted transaction must rewind": (
        written()
        .transact(1, read=[R1])
        .transact(1, read=[R2], kind=FAIL)
        .transact(1, read=[R3])
        .poll(2, R2),
        {"poll-skip"},
    ),
    "an aborted transaction that rewinds": (
        written()
        .transact(1, read=[R1])
        .transact(1, read=[R2], kind=FAIL)
        .transact(1, read=[R2, R3]),
        set(),
    ),
    "going back": (written().poll(1, R1, R2, R3).poll(1, R2), {"nonmonotonic-poll"}),
    "the same again": (written().poll(1, R1, R2, R3).poll(1, R3), {"nonmonotonic-poll"}),
    "skip within a poll": (written().poll(1, R1, R3).poll(2, R2), {"int-poll-skip"}),
    "skip within a poll, rebalanced": (
        written().poll(1, R1, R3, rebalanced=["x"]).poll(2, R2),
        set(),
    ),
    "sends out of order": (
        Story()
        .send(0, Sent("x", 1, 5), kind=INFO)
        .send(0, Sent("x", 2, 2), kind=INFO)
        .poll(1, Read("x", 2, 2), Read("x", 5, 1)),
        {"nonmonotonic-send"},
    ),
    "offsets given out again": (
        Story()
        .send(0, Sent("x", 1, 5))
        .send(2, Sent("x", 2, 3))
        .poll(1, Read("x", 3, 2), Read("x", 5, 1)),
        {"realtime-inversion"},
    ),
    "concurrent writes take any order": (concurrent(), set()),
    "circular flow": (
        Story()
        .transact(0, Sent("x", 1, 0), read=[Read("y", 0, 2)])
        .transact(2, Sent("y", 2, 0), read=[R1]),
        {"G1c"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_anomaly_is_found_and_nothing_else(name: str) -> None:
    """A checker with false alarms gets switched off, and one that misses anomalies proves
    nothing."""
    story, wanted = CASES[name]
    assert judge(story.events).findings.keys() == wanted


def test_subscribers_may_skip_and_go_back() -> None:
    """A rebalance gives partitions to others, who start at the group's position."""
    story = written().poll(1, R1).poll(1, R3).poll(2, R2)
    assert judge(story.events, is_subscribed=True).is_good
    assert not judge(story.events).is_good


def test_what_was_not_read_to_the_end_is_not_missed() -> None:
    """While clients still run, a record may simply not have been polled yet."""
    assert judge(written().poll(1, R1).events, is_read_to_the_end=False).is_good


def test_a_process_that_died_has_an_unknown_outcome() -> None:
    """Its records may be there, and no read of them comes from nowhere."""
    story = Story()
    story.begin(0, Call.SEND, [X1])
    assert judge(story.poll(1, R1).events).is_good


@pytest.mark.parametrize("seed", range(20))
def test_flawless_histories_are_good(seed: int) -> None:
    """Aborts, unknown outcomes and markers' gaps are everyday life."""
    verdict = judge(perfect_story(seed, 2_000).events)
    assert verdict.is_good, verdict.told()


@pytest.mark.parametrize("seed", range(10))
def test_one_record_that_vanishes_from_all_reads_is_found(seed: int) -> None:
    """The rest of the history is correct, so the checker must not miss a single lost record."""
    events = perfect_story(seed, 1_000).events
    lost = next(
        sent for event in events[500:] if event.kind is OK for sent in event.sent if sent.offset
    )
    for event in events:
        event.read = tuple(read for read in event.read if read.value != lost.value)
    assert any(lost.value in one.values for one in judge(events).violations)


def test_a_history_survives_its_file() -> None:
    """The history of a run is judged again from its file, also when its last line was cut."""
    story = perfect_story(3, 200)
    lines = [as_line(event) for event in story.events]
    assert list(read_lines([*lines, lines[-1][:10]])) == story.events
    file = io.StringIO()
    recorder = Recorder(file)
    recorder.note(1, "a", OK, Call.SEND, sent=[X1])
    assert list(read_lines(file.getvalue().splitlines())) == recorder.events


def test_the_work_grows_with_the_history_alone() -> None:
    """A history of half an hour is judged in seconds."""

    def took_s(operations: int) -> float:
        events = perfect_story(1, operations).events
        begun = time.process_time()
        assert judge(events).is_good
        return time.process_time() - begun

    took_s(500)
    assert took_s(16_000) < 40 * took_s(2_000)
