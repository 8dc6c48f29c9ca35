"""Processes that hang, and processes that are ill: who is named on the pages of health."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from ottla.broker.cli.serving import real_ports
from ottla.broker.engine.tasks import Tasks
from ottla.broker.processes import fleet as fleet_module
from ottla.broker.processes import pulses as pulses_module
from ottla.broker.processes import supervisor as supervisor_module
from ottla.broker.processes.pages import SupervisorPages
from ottla.broker.processes.pulses import HUNG_AFTER, PULSE_MS, UNANSWERED_MAX, Pulses
from ottla.broker.processes.supervisor import Supervisor
from tests.broker.processes.test_supervisor import FakeProcess, plan_of

if TYPE_CHECKING:
    import pytest

    from ottla.broker.network.http import Page


def test_a_process_that_leaves_questions_unanswered_hangs() -> None:
    """Its channel stays open: the kernel keeps what it does not read."""
    pulses = Pulses()
    asked = [pulses.ask(1) for _ in range(UNANSWERED_MAX)]
    before = pulses.illness(1)
    asked.append(pulses.ask(1))

    assert asked == [True] * UNANSWERED_MAX + [False]
    assert before == ""
    assert pulses.illness(1) == "it has not answered the supervisor for 32 s"
    assert pulses.illness(2) == ""


def test_a_process_is_ended_after_a_minute_of_silence() -> None:
    """Once, and again after another minute: a kill may have to wait for a disk."""
    pulses = Pulses()
    ended = []
    for number in range(1, 2 * HUNG_AFTER + 1):
        pulses.ask(1)
        if pulses.is_hung(1):
            ended.append(number * PULSE_MS)

    assert ended == [60_000.0, 120_000.0]
    assert not pulses.is_hung(2)


def test_an_answer_makes_it_well_again() -> None:
    """And so does the end of the process: another one takes its place."""
    pulses = Pulses()
    for _ in range(UNANSWERED_MAX + 1):
        pulses.ask(1)
        pulses.ask(2)
    pulses.answered(1, "", "")
    pulses.forget(2)

    assert pulses.illness(1) == pulses.illness(2) == ""


def test_questions_have_a_pause_also_after_a_long_sleep() -> None:
    """A machine that slept for an hour has not left an hour of questions unanswered."""
    pulses = Pulses()

    assert pulses.is_due(0.0)
    assert not pulses.is_due(PULSE_MS - 1)
    assert pulses.is_due(3_600_000.0)
    assert not pulses.is_due(3_600_001.0)


class Ailing(FakeProcess):
    """Answers no pulse, or says that its broker is not well."""

    answers: ClassVar[dict[int, tuple[str, str]]] = {
        1: ("", "the session is lost"),
        2: ("no data directory is online", ""),
    }

    def tell(self, *parts: object) -> None:
        if parts[0] != "pulse":
            super().tell(*parts)
        elif self.pid in self.answers:
            self._on_message(["pulse", *self.answers[self.pid]])


def _text(page: Page | None) -> tuple[HTTPStatus, str]:
    assert page is not None
    return page.status, "".join(page.lines)


async def test_a_process_is_asked_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that hangs before it serves is named as well."""

    class Slow(Ailing):
        def tell(self, *parts: object) -> None:
            if parts[0] != "plan":
                super().tell(*parts)

    monkeypatch.setattr(supervisor_module, "SupervisedProcess", Slow)
    monkeypatch.setattr(supervisor_module, "TICK_MS", 0.0)
    monkeypatch.setattr(pulses_module, "PULSE_MS", 0.0)
    monkeypatch.setattr(FakeProcess, "made", 0)
    supervisor = Supervisor(real_ports(memory=True), 3, plan_of)
    running = asyncio.ensure_future(supervisor.run())
    async with asyncio.timeout(60):
        while 13 not in dict(supervisor.illnesses):
            await asyncio.sleep(0.001)

    assert dict(supervisor.illnesses).keys() == {12, 13}
    supervisor.stop()
    assert await running == 0


async def test_health_names_the_broker_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answers and has lost its session, the second says what it lacks, the third
    hangs."""
    monkeypatch.setattr(supervisor_module, "SupervisedProcess", Ailing)
    monkeypatch.setattr(FakeProcess, "made", 0)
    ports = real_ports(memory=True)
    supervisor = Supervisor(ports, 3, plan_of)
    pages = SupervisorPages(ports, Tasks(), supervisor)
    seen: list[Any] = []

    def on_serving(_addresses: list[Any]) -> None:
        seen.append(_text(pages.page("/healthz")))
        for place in supervisor.fleet.places:
            for _ in range(UNANSWERED_MAX + 1):
                supervisor.pulses.ask(place)
            supervisor._tell(place, "pulse")
        seen.extend(_text(pages.page(path)) for path in ("/healthz", "/readyz"))
        for place in (2, 3):
            supervisor.pulses.answered(place, "", "")
        seen.extend(_text(pages.page(path)) for path in ("/healthz", "/readyz"))
        supervisor.stop()

    supervisor.on_serving = on_serving

    assert await supervisor.run() == 0
    ill = "broker 12: no data directory is online\n"
    hangs = "broker 13: it has not answered the supervisor for 32 s\n"
    apart = "broker 11: the session is lost\n"
    assert seen == [
        (HTTPStatus.OK, "ok\n"),
        (HTTPStatus.SERVICE_UNAVAILABLE, ill + hangs + apart),
        (HTTPStatus.SERVICE_UNAVAILABLE, ill + hangs + apart),
        # A restart of the processes would not bring the store back.
        (HTTPStatus.OK, "ok\n" + apart),
        (HTTPStatus.SERVICE_UNAVAILABLE, apart),
    ]


async def test_the_supervisor_restarts_a_process_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The whole way: questions without an answer, the kill, another process that answers."""

    class Hanging(FakeProcess):
        """The first one in the third place answers no question; each later one does."""

        def tell(self, *parts: object) -> None:
            if parts[0] != "pulse":
                super().tell(*parts)
            elif self.pid != 3:
                self._on_message(["pulse", "", ""])

    monkeypatch.setattr(supervisor_module, "SupervisedProcess", Hanging)
    monkeypatch.setattr(supervisor_module, "TICK_MS", 0.0)
    monkeypatch.setattr(pulses_module, "PULSE_MS", 0.0)
    monkeypatch.setattr(fleet_module, "PAUSE_MS_MIN", 0.0)
    monkeypatch.setattr(FakeProcess, "made", 0)
    supervisor = Supervisor(real_ports(memory=True), 3, plan_of)
    running = asyncio.ensure_future(supervisor.run())
    async with asyncio.timeout(60):
        while FakeProcess.made < 4:
            await asyncio.sleep(0.001)
    supervisor.stop()

    assert await running == 0
    assert dict(supervisor.illnesses) == {}
