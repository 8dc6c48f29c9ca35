"""The steps of a traced request in the order of time, and their picture as text. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.cli.output import table
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ottla.client.administration.request_tracing import TracedWay

BAR_WIDTH = 32
_REQUEST = {
    "queued": "the request waits for a handler",
    "taken up": "a handler takes the request up",
    "handled": "is done with it; the answer waits in the purgatory",
    "answered": "hands the answer to the connection",
}


class WayStep(NamedTuple):
    """One step; ``at_ms`` counts from the moment at which the client sent the request."""

    at_ms: float
    node: int | None
    what: str


def steps_of(way: TracedWay, api: str) -> list[WayStep]:
    """Return what is known of the request, in the order of time. What was not measured is left out.

    Args:
        way: What client and brokers have noted.
        api: The name of the request, such as Produce.
    """
    sent = way.sent
    total_ms = sent.answered_ms - sent.sent_ms
    first = WayStep(0.0, None, f"sends the {api} request")
    last = WayStep(total_ms, None, "gets the answer")
    found = [
        WayStep(time_ms - way.clocks[node].offset_ms - sent.sent_ms, node, what)
        for node, told in way.told.items()
        for time_ms, what in _told(told, api)
    ]
    # Equal times stay in the order in which a broker goes through its steps.
    return sorted([first, *found, last], key=lambda one: one.at_ms)


def _told(told: dict[str, Any], api: str) -> Iterator[tuple[float, str]]:
    steps: dict[str, float] = told["steps"]
    requests = [one for one in told["requests"] if one[1] == api]
    handled = [time_ms for what, _, time_ms in requests if what == "handled"]
    answered = [time_ms for what, _, time_ms in requests if what == "answered"]
    # An answer that came before the handler had returned did not wait.
    waits = bool(handled and answered and handled[-1] < answered[-1])
    for what, _, time_ms in requests:
        if what in ("queued", "taken up"):
            yield time_ms, _REQUEST[what]
    for what, time_ms in sorted(steps.items(), key=lambda one: one[1]):
        yield time_ms, _moved(what, is_leader=told["is_leader"])
    for what, _, time_ms in requests:
        if what == "answered" or (what == "handled" and waits):
            yield time_ms, _REQUEST[what]


def _moved(what: str, *, is_leader: bool) -> str:
    if what == "log end":
        return "appends the record" if is_leader else "appends the record, as a follower"
    if what == "high watermark":
        return "raises the high watermark: consumers see it"
    if what == "flushed":
        return "has flushed the record to disk"
    return f"sees by its fetch that {what} has the record"


def picture(steps: Sequence[WayStep], way: TracedWay) -> str:
    """Return the steps as a table with bars: each bar is the time since the step before."""
    total_ms = max(max(one.at_ms for one in steps), 0.001)
    rows, before_ms = [], 0.0
    for one in steps:
        start = _column(before_ms, total_ms)
        end = _column(one.at_ms, total_ms)
        bar = " " * start + "#" * max(end - start, 1)
        where = "client" if one.node is None else f"broker {one.node}"
        rows.append((f"{one.at_ms:9.3f}", f"{one.at_ms - before_ms:+9.3f}", where, one.what, bar))
        before_ms = one.at_ms
    text = table(("AT MS", "STEP MS", "WHERE", "WHAT", "TIME"), rows)
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    for node, clock in way.clocks.items():
        text += f"times of broker {node} are right to {clock.within_ms:.3f} ms\n"
    return text


def _column(at_ms: float, total_ms: float) -> int:
    return min(BAR_WIDTH, max(0, round(BAR_WIDTH * at_ms / total_ms)))


def unflushed(way: TracedWay) -> list[int]:
    """Return the brokers that have stored the record and not flushed it yet."""
    return [
        node
        for node, told in way.told.items()
        if "log end" in told["steps"] and "flushed" not in told["steps"]
    ]
