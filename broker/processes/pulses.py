"""Pure. Which process of a machine's brokers no longer answers, or answers that it is ill.

The supervisor asks each process that starts or serves, again and again; the event loop of the
process answers. Questions without an answer are counted, not time: after the whole machine has
slept, no process is taken for one that hangs.
"""

from __future__ import annotations

from ottla.protocol.data_classes import dataclass

PULSE_MS = 2_000.0
# A loop may be held up by a large request or a busy machine for some of them.
UNANSWERED_MAX = 15
# A process that leaves so many unanswered is ended, after a minute, and again after each further
# minute that it lives.
HUNG_AFTER = 30


@dataclass(slots=True)
class _Pulse:
    unanswered: int = 0
    illness: str = ""
    obstacle: str = ""


class Pulses:
    """Owned by the supervisor."""

    def __init__(self) -> None:
        self._due_ms = 0.0
        self._pulses: dict[int, _Pulse] = {}

    def is_due(self, now_ms: float) -> bool:
        """Whether to ask now: ``ask`` is called for each process that starts or serves."""
        if now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + PULSE_MS
        return True

    def ask(self, place: int) -> bool:
        """It is the turn of the process; return whether to send it a question. One that hangs has
        enough of them waiting."""
        pulse = self._pulses.setdefault(place, _Pulse())
        pulse.unanswered += 1
        return pulse.unanswered <= UNANSWERED_MAX

    def answered(self, place: int, illness: str, obstacle: str) -> None:
        """The process works; what it says is wrong with its broker, empty texts if it is well."""
        self._pulses[place] = _Pulse(0, illness, obstacle)

    def forget(self, place: int) -> None:
        """The process has ended."""
        self._pulses.pop(place, None)

    def illness(self, place: int) -> str:
        """Why the process should be replaced; empty if it need not be."""
        pulse = self._pulses.get(place)
        if pulse is None:
            return ""
        if pulse.unanswered > UNANSWERED_MAX:
            silent_s = pulse.unanswered * PULSE_MS / 1_000
            return f"it has not answered the supervisor for {silent_s:.0f} s"
        return pulse.illness

    def is_hung(self, place: int) -> bool:
        """Whether the question just asked is the one after which the process is to be ended."""
        pulse = self._pulses.get(place)
        return pulse is not None and pulse.unanswered > 0 and pulse.unanswered % HUNG_AFTER == 0

    def obstacle(self, place: int) -> str:
        """Why clients should not come to this broker now, besides an illness."""
        pulse = self._pulses.get(place)
        return "" if pulse is None else pulse.obstacle
