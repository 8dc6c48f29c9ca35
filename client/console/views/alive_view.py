"""The page that shows partitions live: selection, order and picture. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.console.views.asked import BadRequest
from ottla.client.console.views.paging import cut, matches
from ottla.client.console.views.picture import picture_of
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.console.views.asked import Document, Question
    from ottla.client.console.views.history import History
    from ottla.client.console.views.history_changes import SeenPartition
    from ottla.client.console.views.paging import PageCut
    from ottla.protocol.ids import TopicPartition

    States = Mapping[TopicPartition, SeenPartition]

PARTITIONS_SHOWN = 12
ORDERS = ("worst", "name")
HISTORY_S = 3_600


class AliveChoice(NamedTuple):
    """The partitions to show, and the time in seconds ago."""

    page: PageCut
    order: str
    only_troubled: bool
    back_s: int


def read_choice(question: Question) -> AliveChoice:
    """Return the choice from a page's parameters. Raises BadRequest."""
    order = question.text("order") or ORDERS[0]
    if order not in ORDERS:
        raise BadRequest(f"order is one of {', '.join(ORDERS)}")
    page = question.page()._replace(rows=question.number("rows", PARTITIONS_SHOWN, 1, 100))
    back_s = question.number("back", 0, 0, HISTORY_S)
    return AliveChoice(page, order, question.flag("troubled"), back_s)


def trouble_of(state: SeenPartition) -> int:
    """Rank the problem of a state: 0 without a leader, 1 with replicas out of sync, 2 with an open
    transaction, 3 without a problem."""
    if state.leader < 0:
        return 0
    if len(state.isr) < len(state.replicas):
        return 1
    return 2 if state.held_back else 3


def chosen(states: States, choice: AliveChoice) -> tuple[list[TopicPartition], Document]:
    """Return the partitions of the page, and the page's numbers."""
    found = [
        where
        for where, state in states.items()
        if matches(choice.page.search, f"{where.topic}-{where.partition}")
        and (not choice.only_troubled or trouble_of(state) < 3)
    ]
    found.sort(key=lambda where: (trouble_of(states[where]) * (choice.order == "worst"), where))
    return cut(found, choice.page)


def alive_document(history: History, choice: AliveChoice, now_ms: int) -> Document:
    """Return the content of the page: the partitions that many seconds ago, and the changes until
    then."""
    at_ms = history.moment_at(now_ms - choice.back_s * 1000)
    states = {} if at_ms is None else history.states_at(at_ms)
    shown, facts = chosen(states, choice)
    rows = [_row(history, where, states[where], at_ms or 0) for where in shown]
    troubles = [trouble_of(state) for state in states.values()]
    return {
        **facts,
        "order": choice.order,
        "troubled": choice.only_troubled,
        "back": choice.back_s,
        "at": at_ms,
        "first": history.first_ms,
        "leaderless": troubles.count(0),
        "under_replicated": troubles.count(1),
        "open_transactions": troubles.count(2),
        "brokers": sorted({broker for one in states.values() for broker in one.replicas}),
        "partitions": rows,
        "changes": [] if at_ms is None else history.changes_until(at_ms),
    }


def _row(history: History, where: TopicPartition, state: SeenPartition, at_ms: int) -> Document:
    ends = state.log_ends or (None,) * len(state.replicas)
    return {
        "topic": where.topic,
        "partition": where.partition,
        "leader": state.leader if state.leader >= 0 else None,
        "leader_epoch": state.leader_epoch,
        "replicas": list(state.replicas),
        "isr": list(state.isr),
        "end": state.end,
        "stable": state.stable,
        "log_ends": list(ends),
        "per_second": history.rate_at(where, at_ms),
    }


def pictures_of(document: Document) -> list[Document]:
    """Return the pictures of a document's partitions."""
    return [picture_of(row) for row in document["partitions"]]
