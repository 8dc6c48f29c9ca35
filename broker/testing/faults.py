"""Everything that can be made to go wrong with a cluster, by name.

Each call returns when it is done, is noted in ``Cluster.injected``, and raises ClusterError with
one sentence where it makes no sense: a broker that is not there, that is dead, that is paused.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING, Literal, TypeAlias

from ottla.broker.testing.members import ClusterError
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ottla.broker.testing.members import Members
    from ottla.broker.testing.troubles import Troubles

Side: TypeAlias = "Collection[int | Literal['clients']]"
"""One side of a partition: brokers by their numbers, and ``"clients"`` for all clients."""
Do: TypeAlias = "Callable[[str, Callable[[], Coroutine[object, object, None]]], None]"


class Faults:
    """The same for brokers in this process and in processes of their own.

    Brokers are numbered from 1. What has no count lasts until it is undone: ``resume``, ``heal``,
    ``mend_disk``, ``restart``, or ``clear`` for all of them."""

    def __init__(self, members: Members, troubles: Troubles, do: Do) -> None:
        self._members = members
        self._troubles = troubles
        self._do = do

    def kill(self, broker: int) -> None:
        """End the broker as ``kill -9`` does. Its disk stays, its connections break, its session
        with the metadata store ends at once, so that others lead what it led."""
        self._do(f"kill({broker})", lambda: self._members.kill(broker))

    def restart(self, broker: int) -> None:
        """Start a broker that is dead again, on its disk and its port; stop it before if it runs.

        Raises CannotStart if its disk does not let it."""
        self._do(f"restart({broker})", lambda: self._members.restart(broker))

    def pause(self, broker: int) -> None:
        """Stop the broker as SIGSTOP does: connections stay, nobody answers, its time stands still.

        After ``zookeeper.session.timeout.ms`` the cluster gives it up; ``advance`` counts."""
        self._do(f"pause({broker})", lambda: self._members.pause(broker))

    def resume(self, broker: int) -> None:
        """Let a paused broker go on."""
        self._do(f"resume({broker})", lambda: self._members.resume(broker))

    def partition(self, *sides: Side) -> None:
        """Cut the network between the sides: ``partition({1}, {2, 3})``. Packets vanish, and what
        was sent arrives after ``heal``. One side alone is cut off from everybody else, clients
        included. Each call replaces the one before; the store stays within everybody's reach."""
        if not sides or not all(map(_is_side, sides)):
            raise ClusterError("a partition has sides, which are sets of brokers: partition({1})")
        wording = ", ".join(str(set(side)) for side in sides)
        self._do(f"partition({wording})", lambda: self._troubles.partition(sides))

    def heal(self) -> None:
        """The network is whole again."""
        self._do("heal()", self._troubles.heal)

    def slow_disk(self, broker: int, delay_ms: float) -> None:
        """From now on every flush, every read that is not in memory, and every produce to the
        broker takes so much longer."""
        _check_ms(delay_ms, least=0)
        self._do(
            f"slow_disk({broker}, {delay_ms})",
            lambda: self._troubles.change_disk(broker, {"delay_ms": delay_ms}),
        )

    def full_disk(self, broker: int) -> None:
        """Nothing more fits on the broker's disk: what it should append is refused with
        KAFKA_STORAGE_ERROR. It heals a second or two after ``mend_disk``."""
        self._do(
            f"full_disk({broker})",
            lambda: self._troubles.change_disk(broker, {"is_full": True}),
        )

    def mend_disk(self, broker: int) -> None:
        """The broker's disk is fast, has room and tears nothing."""
        self._do(f"mend_disk({broker})", lambda: self._troubles.mend_disk(broker))

    def torn_write(self, broker: int) -> None:
        """The broker dies in the middle of its next append to a log: half of that is on its disk
        when it starts again, which it has to find and cut off."""
        self._do(
            f"torn_write({broker})",
            lambda: self._troubles.change_disk(broker, {"is_tearing": True}),
        )

    def lose_reply(self, api: ApiKey | str, count: int = 1, broker: int | None = None) -> None:
        """The next ``count`` requests of clients are carried out and not answered: their
        connections break instead. ``api``: ``"PRODUCE"`` or ``ApiKey.PRODUCE``."""
        key = key_of(api)
        self._do(
            f"lose_reply({key.name}, {count}, broker={broker})",
            lambda: self._troubles.fault_requests(key, None, count, broker),
        )

    def fail_request(
        self, api: ApiKey | str, error: ErrorCode | str, count: int = 1, broker: int | None = None
    ) -> None:
        """The next ``count`` requests of clients are answered with that error, for everything that
        they ask for, and not carried out."""
        key, code = key_of(api), error_of(error)
        if code is ErrorCode.NONE:
            raise ClusterError("NONE is no error: the client would believe that it was done")
        self._do(
            f"fail_request({key.name}, {code.name}, {count}, broker={broker})",
            lambda: self._troubles.fault_requests(key, code, count, broker),
        )

    def expire_session(self, broker: int) -> None:
        """The metadata store ends the broker's session though it lives; it has to register anew
        and gets back what the others took over."""
        self._do(f"expire_session({broker})", lambda: self._members.expire_session(broker))

    def jump_clock(self, ms: int, broker: int | None = None) -> None:
        """Move the date, either way, of one broker or of all. Timeouts do not notice."""
        _check_ms(ms)
        if ms != int(ms):
            raise ClusterError(f"a date moves by whole milliseconds, not {ms}")
        self._do(f"jump_clock({ms}, broker={broker})", lambda: self._troubles.jump(int(ms), broker))

    def advance(self, ms: float) -> None:
        """Let time pass for the brokers: what is due in it happens now, such as retention, the
        timeouts of sessions and transactions, the expiry of offsets. Clients do not notice, and
        look to the brokers like clients that were silent for so long. Takes about a second for
        each five minutes, and no more than that for the longest time: all but the last six
        minutes is then a jump to the brokers, which excuses the members of groups."""
        _check_ms(ms)
        self._do(f"advance({ms})", lambda: self._troubles.advance(ms))

    def clear(self) -> None:
        """Undo what lasts: heal, resume, mend every disk, forget requests that should fail.

        The dead stay dead."""
        self._do("clear()", self._clear)

    async def _clear(self) -> None:
        for node_id, member in self._members.members.items():
            if member.state.value == "paused":
                await self._members.resume(node_id)
        await self._troubles.heal()
        await self._troubles.forget_faults()
        for node_id in self._members.members:
            await self._troubles.mend_disk(node_id)


def _is_side(side: object) -> bool:
    return isinstance(side, Collection) and all(isinstance(one, Hashable) for one in side)


def _check_ms(value: float, least: float | None = None) -> None:
    """A mistake would come out in a broker, and end it. Raises ClusterError."""
    given: object = value
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ClusterError(f"a time is a number of milliseconds, not {given!r}")
    if not math.isfinite(given):
        raise ClusterError(f"a time has an end: {given} is none")
    if least is not None and not value >= least:
        raise ClusterError(f"a delay is {least} ms or more, not {value}")


def key_of(api: ApiKey | str) -> ApiKey:
    """An API by Kafka's name in any spelling. Raises ClusterError."""
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
    """An error by Kafka's name. Raises ClusterError."""
    if isinstance(error, ErrorCode):
        return error
    if error not in ErrorCode.__members__:
        raise ClusterError(f"there is no error {error!r}; one is called NOT_LEADER_OR_FOLLOWER")
    return ErrorCode[error]
