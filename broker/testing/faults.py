"""The faults that can be injected into a cluster.

Each call returns when the fault is in effect, is recorded in ``Cluster.injected``, and raises
ClusterError with one sentence if it is impossible: for a broker that does not exist, is dead or is
paused.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING, Literal, TypeAlias

from ottla.broker.testing.access_faults import AccessFaults
from ottla.broker.testing.members import ClusterError
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.testing.access import Access
    from ottla.broker.testing.access_faults import Do
    from ottla.broker.testing.fault_switches import FaultSwitches
    from ottla.broker.testing.members import Members

Side: TypeAlias = "Collection[int | Literal['clients']]"
"""One side of a partition: brokers by their numbers, and ``"clients"`` for all clients."""


class Faults(AccessFaults):
    """Injects faults into a cluster; works for brokers in threads and in processes.

    Brokers are numbered from 1. A fault without a count lasts until it is undone: ``resume``,
    ``heal``, ``mend_disk``, ``restart``, or ``clear`` for all of them. Every method raises
    ClusterError with a sentence if the broker's state does not allow the fault."""

    def __init__(self, members: Members, switches: FaultSwitches, access: Access, do: Do) -> None:
        super().__init__(members, access, do)
        self._switches = switches

    def kill(self, broker: int) -> None:
        """End the broker as ``kill -9`` does.

        Its disk stays and its connections break. Its session with the metadata store ends at once,
        so that other brokers take over its partitions.

        Args:
            broker: The broker's id.
        """
        self._do(f"kill({broker})", lambda: self._members.kill(broker))

    def restart(self, broker: int) -> None:
        """Start a dead broker on its disk and its port; stop it first if it runs.

        Args:
            broker: The broker's id.

        Raises:
            CannotStart: The broker cannot start on its disk.
        """
        self._do(f"restart({broker})", lambda: self._members.restart(broker))

    def pause(self, broker: int) -> None:
        """Stop the broker as SIGSTOP does: its connections stay open, it answers nothing, its clock
        stops.

        The cluster removes it after ``zookeeper.session.timeout.ms``; ``advance`` counts.

        Args:
            broker: The broker's id.
        """
        self._do(f"pause({broker})", lambda: self._members.pause(broker))

    def resume(self, broker: int) -> None:
        """Let a paused broker continue.

        Args:
            broker: The broker's id.
        """
        self._do(f"resume({broker})", lambda: self._members.resume(broker))

    def partition(self, *sides: Side) -> None:
        """Cut the network between sides: ``partition({1}, {2, 3})``.

        Packets are lost, and TCP delivers after ``heal`` what was sent. A single side is cut off
        from all other brokers and from clients. Each call replaces the previous one. All brokers
        still reach the metadata store.

        Args:
            sides: Sets of broker ids, with ``"clients"`` for all clients.
        """
        if not sides or not all(map(_is_side, sides)):
            raise ClusterError("a partition has sides, which are sets of brokers: partition({1})")
        wording = ", ".join(str(set(side)) for side in sides)
        self._do(f"partition({wording})", lambda: self._switches.partition(sides))

    def heal(self) -> None:
        """End the network partition."""
        self._do("heal()", self._switches.heal)

    def slow_disk(self, broker: int, delay_ms: float) -> None:
        """Delay every flush, every read that is not cached, and every produce of the broker.

        Args:
            broker: The broker's id.
            delay_ms: The delay, in milliseconds.
        """
        _check_ms(delay_ms, least=0)
        self._do(
            f"slow_disk({broker}, {delay_ms})",
            lambda: self._switches.change_disk(broker, {"delay_ms": delay_ms}),
        )

    def full_disk(self, broker: int) -> None:
        """Fill the broker's disk: it refuses appends with KAFKA_STORAGE_ERROR.

        The broker recovers a second or two after ``mend_disk``.

        Args:
            broker: The broker's id.
        """
        self._do(
            f"full_disk({broker})",
            lambda: self._switches.change_disk(broker, {"is_full": True}),
        )

    def mend_disk(self, broker: int) -> None:
        """Undo ``slow_disk``, ``full_disk`` and ``torn_write``.

        Args:
            broker: The broker's id.
        """
        self._do(f"mend_disk({broker})", lambda: self._switches.mend_disk(broker))

    def torn_write(self, broker: int) -> None:
        """Let the broker die in the middle of its next append to a log.

        Half of the append is on its disk when it starts again, and recovery must truncate it.

        Args:
            broker: The broker's id.
        """
        self._do(
            f"torn_write({broker})",
            lambda: self._switches.change_disk(broker, {"is_tearing": True}),
        )

    def lose_reply(self, api: ApiKey | str, count: int = 1, broker: int | None = None) -> None:
        """Execute the next requests of clients, but break their connections instead of answering.

        Args:
            api: The request, as ``"PRODUCE"`` or ``ApiKey.PRODUCE``.
            count: How many requests (default 1).
            broker: The broker's id; None (default) for any broker.
        """
        key = key_of(api)
        self._do(
            f"lose_reply({key.name}, {count}, broker={broker})",
            lambda: self._switches.fault_requests(key, None, count, broker),
        )

    def fail_request(
        self, api: ApiKey | str, error: ErrorCode | str, count: int = 1, broker: int | None = None
    ) -> None:
        """Answer the next requests of clients with an error, without executing them.

        Args:
            api: The request, as ``"PRODUCE"`` or ``ApiKey.PRODUCE``.
            error: The error, as ``"NOT_LEADER_OR_FOLLOWER"`` or an ``ErrorCode``.
            count: How many requests (default 1).
            broker: The broker's id; None (default) for any broker.
        """
        key, code = key_of(api), error_of(error)
        if code is ErrorCode.NONE:
            raise ClusterError("NONE is no error: the client would believe that it was done")
        self._do(
            f"fail_request({key.name}, {code.name}, {count}, broker={broker})",
            lambda: self._switches.fault_requests(key, code, count, broker),
        )

    def expire_session(self, broker: int) -> None:
        """Expire the live broker's session with the metadata store; the broker registers again.

        Args:
            broker: The broker's id.
        """
        self._do(f"expire_session({broker})", lambda: self._members.expire_session(broker))

    def jump_clock(self, ms: int, broker: int | None = None) -> None:
        """Move the wall clock. Timeouts do not notice.

        Args:
            ms: How far, in milliseconds; negative for back.
            broker: The broker's id; None (default) for all brokers.
        """
        _check_ms(ms)
        if ms != int(ms):
            raise ClusterError(f"a date moves by whole milliseconds, not {ms}")
        self._do(f"jump_clock({ms}, broker={broker})", lambda: self._switches.jump(int(ms), broker))

    def advance(self, ms: float) -> None:
        """Let time pass for the brokers.

        Retention, session and transaction timeouts and the expiry of offsets happen as if the time
        had passed. Clients do not notice, and look to the brokers as if they had been silent. Five
        minutes take about a second, and longer times no more than that: all but the last six
        minutes are a jump, which excuses the members of groups.

        Args:
            ms: How long, in milliseconds.
        """
        _check_ms(ms)
        self._do(f"advance({ms})", lambda: self._switches.advance(ms))

    def clear(self) -> None:
        """Undo all lasting faults: heal, resume, mend every disk, drop pending request faults,
        renew certificates, restore users and access rules.

        Dead brokers stay dead."""
        self._do("clear()", self._clear)

    async def _clear(self) -> None:
        for node_id, member in self._members.members.items():
            if member.state.value == "paused":
                await self._members.resume(node_id)
        await self._switches.heal()
        await self._switches.forget_faults()
        for node_id in self._members.members:
            await self._switches.mend_disk(node_id)
        await self._access.clear()


def _is_side(side: object) -> bool:
    return isinstance(side, Collection) and all(isinstance(one, Hashable) for one in side)


def _check_ms(value: float, least: float | None = None) -> None:
    """Check the value here: an invalid one would end the broker. Raises ClusterError."""
    given: object = value
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ClusterError(f"a time is a number of milliseconds, not {given!r}")
    if not math.isfinite(given):
        raise ClusterError(f"a time has an end: {given} is none")
    if least is not None and not value >= least:
        raise ClusterError(f"a delay is {least} ms or more, not {value}")


def key_of(api: ApiKey | str) -> ApiKey:
    """Return an API by Kafka's name in any spelling. Raises ClusterError."""
    if isinstance(api, ApiKey):
        return api
    given: object = api
    if not isinstance(given, str):
        raise ClusterError(f"an API is called by its name, such as 'Produce', not {given!r}")
    wanted = api.replace("_", "").upper()
    for key in ApiKey:
        if key.name.replace("_", "") == wanted:
            return key
    raise ClusterError(f"there is no API {api!r}; one is called PRODUCE")


def error_of(error: ErrorCode | str) -> ErrorCode:
    """Return an error by Kafka's name. Raises ClusterError."""
    if isinstance(error, ErrorCode):
        return error
    if error not in ErrorCode.__members__:
        raise ClusterError(f"there is no error {error!r}; one is called NOT_LEADER_OR_FOLLOWER")
    return ErrorCode[error]
