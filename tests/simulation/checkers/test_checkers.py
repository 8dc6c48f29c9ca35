"""Each checker sees the violation planted for it and lets its near miss pass.

A checker that cannot fail proves nothing, however many seeds it has judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.checkers import (
    agreement,
    duplicates,
    liveness,
    offsets,
    ordering,
    phantoms,
    replies,
    survival,
    watermarks,
)
from tests.simulation.checkers.verdict import judge
from tests.simulation.history import (
    Exchange,
    Fate,
    FinalLog,
    History,
    Loss,
    Read,
    Watermarks,
    Write,
)

if TYPE_CHECKING:
    from tests.simulation.history import Partition

P: Partition = ("t", 0)


class Story(History):
    """A history written by hand."""

    def sent(self, value: bytes, producer: str = "p", partition: Partition = P) -> Write:
        write = Write(producer, len(self.writes), partition, value, self.tick())
        write.attempted = write.invoked
        self.writes.append(write)
        return write

    def acked(self, value: bytes, offset: int | None, producer: str = "p") -> Write:
        write = self.sent(value, producer)
        write.settle(Fate.ACKNOWLEDGED, self.tick(), offset)
        return write

    def read(self, offset: int, value: bytes) -> None:
        self.reads.append(Read(self.tick(), self.tick(), "c", P, offset, value))

    def lost_power(self, durable_end: int) -> None:
        self.losses.append(Loss(self.tick(), "power cut", {P: durable_end}))

    def told(self, log_start: int, high_watermark: int) -> None:
        self.watermarks.append(Watermarks(self.tick(), self.tick(), P, log_start, high_watermark))

    def ends_as(self, *values: bytes, start: int = 0) -> Story:
        records = [(start + number, value) for number, value in enumerate(values)]
        self.finals[P] = FinalLog(start, start + len(values), records)
        return self


def test_an_acknowledged_record_that_is_gone_is_lost() -> None:
    """The first promise of all."""
    story = Story()
    story.acked(b"a", 0)
    story.acked(b"b", 1)

    assert len(survival.check(story.ends_as(b"a"))) == 1
    assert survival.check(story.ends_as(b"a", b"b")) == []
    assert len(survival.check(story.ends_as(b"b", b"a"))) == 2


def test_a_record_shown_to_a_consumer_must_stay() -> None:
    """The producer got no acknowledgement, but a consumer has acted on the record."""
    story = Story()
    story.sent(b"a").settle(Fate.UNKNOWN, story.tick())
    story.read(0, b"a")

    assert len(survival.check(story.ends_as())) == 1


def test_an_acknowledgement_without_offset_still_promises_the_value() -> None:
    """A duplicate is acknowledged without an offset once its offset is forgotten."""
    story = Story()
    story.acked(b"a", None)

    assert len(survival.check(story.ends_as(b"x"))) == 1
    assert survival.check(story.ends_as(b"x", b"a")) == []


def test_a_power_cut_excuses_what_was_not_durable_and_nothing_else() -> None:
    """Kafka acknowledges from memory; one broker without fsync can promise no more."""
    story = Story()
    story.acked(b"a", 0)
    story.acked(b"b", 1)
    story.lost_power(durable_end=1)

    assert survival.check(story.ends_as(b"a")) == []
    assert len(survival.check(story.ends_as())) == 1


def test_a_power_cut_excuses_nothing_where_an_fsync_was_promised() -> None:
    """flush.messages=1 is how one broker promises what others promise by replication."""
    story = Story()
    story.acked(b"a", 0).durable = True
    story.lost_power(durable_end=0)

    assert len(survival.check(story.ends_as())) == 1


def test_what_was_acknowledged_after_the_power_cut_is_not_excused_by_it() -> None:
    """A loss reaches backwards only."""
    story = Story()
    story.lost_power(durable_end=0)
    story.acked(b"a", 0)

    assert len(survival.check(story.ends_as())) == 1


def test_losing_an_early_record_and_keeping_a_late_one_is_a_hole() -> None:
    """Recovery keeps a prefix, whatever the disk has kept."""
    story = Story()
    story.acked(b"a", 0)
    story.acked(b"b", 1)
    story.lost_power(durable_end=0)

    assert len(survival.check(story.ends_as(b"x", b"b"))) == 1
    assert survival.check(story.ends_as(b"a", b"x")) == []


def test_retention_may_remove_the_beginning() -> None:
    """Records below the log start were removed on purpose."""
    story = Story()
    story.acked(b"a", 0)
    story.acked(b"b", 1)

    assert len(survival.check(story.ends_as(b"b", start=1))) == 1
    story.may_trim = True
    assert survival.check(story.ends_as(b"b", start=1)) == []


def test_one_offset_with_two_values_is_a_disagreement() -> None:
    """Two consumers that read different histories can never be reconciled."""
    story = Story()
    story.read(0, b"a")
    story.read(0, b"b")
    assert len(agreement.check(story)) == 1

    story = Story()
    story.read(0, b"a")
    story.lost_power(durable_end=0)
    story.read(0, b"b")
    assert agreement.check(story) == []

    story = Story()
    story.read(0, b"a")
    story.lost_power(durable_end=1)
    story.read(0, b"b")
    assert len(agreement.check(story)) == 1


def test_one_value_at_two_offsets_is_a_duplicate() -> None:
    """Retries of an idempotent producer must leave no trace."""
    assert len(duplicates.check(Story().ends_as(b"a", b"b", b"a"))) == 1
    assert duplicates.check(Story().ends_as(b"a", b"b")) == []


def test_a_value_that_was_never_written_or_was_refused_is_a_phantom() -> None:
    """Corruption, other people's records, and refusals that were none."""
    story = Story()
    story.acked(b"a", 0)
    story.sent(b"refused").settle(Fate.FAILED, story.tick())
    story.sent(b"elsewhere", partition=("t", 1))
    story.read(1, b"nobody")

    assert len(phantoms.check(story.ends_as(b"a", b"refused", b"elsewhere"))) == 3
    story.reads.clear()
    assert phantoms.check(story.ends_as(b"a")) == []


def test_a_producers_records_out_of_their_order_are_found() -> None:
    """Five requests in flight and retries are where order is lost."""
    story = Story()
    for value in (b"a", b"b", b"c"):
        story.sent(value)

    assert len(ordering.check(story.ends_as(b"a", b"c", b"b"))) == 1
    assert ordering.check(story.ends_as(b"a", b"c")) == []


def test_a_late_request_of_a_plain_producer_may_stand_behind() -> None:
    """Without sequence numbers nothing shuts out a request that has timed out."""
    story = Story()
    for value in (b"a", b"b"):
        story.sent(value).idempotent = False

    assert ordering.check(story.ends_as(b"b", b"a")) == []
    for offset, write in enumerate(reversed(story.writes)):
        write.settle(Fate.ACKNOWLEDGED, story.tick(), offset)
    assert len(ordering.check(story.ends_as(b"b", b"a"))) == 1


def test_a_record_sent_after_an_acknowledgement_stands_behind_it() -> None:
    """A leader that was deposed and still acknowledges is found by this, without a reader."""
    story = Story()
    story.acked(b"a", 5, producer="p")
    story.acked(b"b", 4, producer="q")
    assert len(ordering.check(story)) == 1

    concurrent = Story()
    first, second = concurrent.sent(b"a", "p"), concurrent.sent(b"b", "q")
    first.settle(Fate.ACKNOWLEDGED, concurrent.tick(), 5)
    second.settle(Fate.ACKNOWLEDGED, concurrent.tick(), 4)
    assert ordering.check(concurrent) == []


def test_a_gap_in_the_offsets_and_a_wrong_end_are_found() -> None:
    """Consumers compute lag and resume from these numbers."""
    story = Story().ends_as(b"a", b"b")
    assert offsets.check(story) == []
    story.finals[P].records[1] = (2, b"b")
    assert len(offsets.check(story)) == 2
    assert len(offsets.check(Story(finals={P: FinalLog(0, 3, [(0, b"a")])}))) == 1


def test_watermarks_that_go_back_are_found() -> None:
    """A consumer that has seen a record committed must not see it uncommitted."""
    story = Story()
    story.told(0, 10)
    story.told(0, 9)
    assert len(watermarks.check(story)) == 1

    story = Story()
    story.told(3, 10)
    story.told(2, 11)
    assert len(watermarks.check(story)) == 1

    story = Story()
    story.told(0, 10)
    story.lost_power(durable_end=7)
    story.told(0, 7)
    assert watermarks.check(story) == []
    story.told(0, 6)
    assert len(watermarks.check(story)) == 1


def test_a_restart_may_take_back_the_log_start_but_not_what_was_promised() -> None:
    """Deleted records stay deleted once DeleteRecords has said so (S-19)."""
    story = Story()
    story.told(5, 10)
    story.restarts.append(story.tick())
    story.told(3, 10)
    assert watermarks.check(story) == []

    story.watermarks.append(Watermarks(story.tick(), story.tick(), P, 5, -1, promised=True))
    story.restarts.append(story.tick())
    story.told(4, 10)
    assert len(watermarks.check(story)) == 1


def test_answers_that_overtook_each_other_on_the_network_are_no_violation() -> None:
    """Only what was complete before the question can be contradicted."""
    story = Story()
    story.watermarks = [Watermarks(1, 4, P, 0, 9), Watermarks(2, 3, P, 0, 10)]
    assert watermarks.check(story) == []


def test_answers_out_of_order_doubled_or_unasked_are_found() -> None:
    """Clients pair answers with requests by order; one slip shifts all that follow (N-08)."""
    for answered in ([1, 3, 2], [1, 1], [1, 2, 3, 4], [2]):
        assert len(replies.check(Story(exchanges=[Exchange("x", [1, 2, 3], answered)]))) == 1
    for answered in ([], [1], [1, 2, 3]):
        assert replies.check(Story(exchanges=[Exchange("x", [1, 2, 3], answered)])) == []


def test_writes_that_never_settle_and_logs_that_cannot_be_read_are_found() -> None:
    """Safety is easy for a broker that does nothing."""
    story = Story()
    story.sent(b"a")
    assert len(liveness.check(story)) == 2

    story = Story()
    story.acked(b"a", 0)
    assert liveness.check(story.ends_as(b"a")) == []


def test_a_partition_may_stay_offline_only_if_its_disk_has_failed_it() -> None:
    """One broker alone cannot mend what the disk has destroyed, and must not pretend to."""
    story = Story()
    story.acked(b"a", 0)
    story.offline.add(P)
    assert len(liveness.check(story)) == 1
    story.damaged.add(P)
    assert liveness.check(story) == []


def test_a_clean_history_passes_every_family() -> None:
    """False alarms are how checkers come to be ignored."""
    story = Story()
    for number in range(20):
        story.acked(b"%d" % number, number)
        story.read(number, b"%d" % number)
        story.told(0, number + 1)
    story.ends_as(*(b"%d" % number for number in range(20)))

    assert judge(story) == []
