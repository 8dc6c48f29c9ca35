"""The supervisor without real processes: what its machine cannot see."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.cli.serving import real_ports
from ottla.broker.processes import supervisor as supervisor_module
from ottla.broker.processes.plan import ChildPlan
from ottla.broker.processes.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable


def plan_of(place: int) -> ChildPlan:
    """Of a process that is never made."""
    return ChildPlan(10 + place, {}, "", 0, False, False, "text", [])


class FakeProcess:
    """Serves at once, and ends when it is told to."""

    made = 0

    def __init__(
        self, on_message: Callable[[list[Any]], object], on_closed: Callable[[], object]
    ) -> None:
        FakeProcess.made += 1
        self.pid = FakeProcess.made
        self._on_message = on_message
        self._end: str | None = None

    def tell(self, *parts: object) -> None:
        """What a process would do."""
        if parts[0] == "plan":
            self._on_message(["serving", "127.0.0.1", 9000 + self.pid])
        elif parts[0] == "metrics":
            self._on_message(["metrics", f"page {self.pid}"])
        elif parts[0] == "pulse":
            self._on_message(["pulse", "", ""])
        elif parts[0] == "sync":
            self._on_message(["sync", 0, ""])
        elif parts[0] == "stop":
            self._end = "has ended with status 0"

    def kill(self) -> None:
        self._end = "was ended by SIGKILL"

    def end(self) -> str | None:
        return self._end


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeProcess.made = 0
    monkeypatch.setattr(supervisor_module, "SupervisedProcess", FakeProcess)


async def test_a_machine_without_room_for_processes_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The kernel refuses to fork: no step may end the steps."""

    def refuse(*_arguments: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(supervisor_module, "SupervisedProcess", refuse)
    supervisor = Supervisor(real_ports(memory=True), 2, plan_of)

    assert await supervisor.run() == 1
    assert "broker 11 could not be started: [Errno 11]" in caplog.text


async def test_a_stop_while_the_store_is_opened_starts_no_process(fakes: None) -> None:
    """They would be killed in the middle of their start."""
    supervisor = Supervisor(real_ports(memory=True), 2, plan_of)
    supervisor.stop()

    assert await supervisor.run() == 0
    assert FakeProcess.made == 0


async def test_addresses_come_in_the_order_of_the_brokers(fakes: None) -> None:
    """And the page of figures has all of them."""
    supervisor = Supervisor(real_ports(memory=True), 2, plan_of)
    heard: list[Any] = []

    def on_serving(addresses: list[Any]) -> None:
        heard.append(addresses)
        supervisor.stop()

    supervisor.on_serving = on_serving

    assert await supervisor.run() == 0
    assert [[one.port for one in addresses] for addresses in heard] == [[9001, 9002]]


async def test_figures_are_those_of_the_brokers_that_answer(fakes: None) -> None:
    """One that is down is left out, and does not hold up the page."""
    supervisor = Supervisor(real_ports(memory=True), 2, plan_of)
    pages: list[dict[int, str]] = []

    def on_serving(_addresses: list[Any]) -> None:
        async def ask() -> None:
            pages.append(await supervisor.figures())
            supervisor._processes[1].kill()
            supervisor.look()
            pages.append(await supervisor.figures())
            supervisor.stop()

        supervisor._tasks.spawn("test", ask())

    supervisor.on_serving = on_serving

    assert await supervisor.run() == 0
    assert pages == [{11: "page 1", 12: "page 2"}, {12: "page 2"}]
