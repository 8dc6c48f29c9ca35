"""What a replica learns from its log, by the contract that the log asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replica.history import ReplicaHistory
from tests.broker.replica.support.batches import data_batch, marker_batch, plain_batch

if TYPE_CHECKING:
    from ottla.broker.log.observer import LogObserver


def test_the_history_is_what_a_log_wants_to_tell() -> None:
    """The log must not know replicas, so only the types hold the two together."""
    observer: LogObserver = ReplicaHistory()
    observer.load_leader_epochs([(0, 0), (2, 5)])
    observer.observe(plain_batch(7, leader_epoch=3))
    observer.log_start_moved(6)

    assert observer.leader_epochs() == [(2, 6), (3, 7)]


def test_the_log_indexes_aborted_transactions_only() -> None:
    """Readers search the transaction index for aborted transactions."""
    history = ReplicaHistory()
    answers = [
        history.observe(batch)
        for batch in (
            data_batch(0, at=0, transactional=True),
            marker_batch(1),
            data_batch(1, at=2, transactional=True),
            data_batch(0, at=3, producer_id=7, transactional=True),
            marker_batch(4, abort=True),
        )
    ]

    assert answers == [None, None, None, None, (4000, 2, 4, 3)]


def test_a_reset_drops_producers_and_keeps_leader_epochs() -> None:
    """The batches of the log follow and restore producers, but the epoch file has more entries."""
    history = ReplicaHistory()
    history.load_leader_epochs([(4, 1)])
    history.observe(data_batch(0, at=0, transactional=True, leader_epoch=-1))
    history.reset()

    assert len(history.producers) == 0
    assert history.producers.transactions.first_unstable_offset is None
    assert history.leader_epochs() == [(4, 1)]


def test_a_truncation_removes_the_leader_epochs_behind_the_end() -> None:
    """The log restores the producers; the epochs are cut (T-07)."""
    history = ReplicaHistory()
    for offset in range(4):
        history.observe(data_batch(offset, at=offset, leader_epoch=offset))
    history.truncated(2)

    assert history.leader_epochs() == [(0, 0), (1, 1)]
