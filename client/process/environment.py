"""The environment of a client: the real one by default, a simulated one in simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.process.allocator import keep_freed_memory
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom

if TYPE_CHECKING:
    from ottla.protocol.ports import Clock, Net, Random


class Environment(NamedTuple):
    """Everything outside of the process that a client uses."""

    net: Net
    clock: Clock
    random: Random


def real_environment() -> Environment:
    """This machine's network, clock and randomness; also configures the allocator."""
    keep_freed_memory()
    return Environment(RealNet(), RealClock(), RealRandom())
