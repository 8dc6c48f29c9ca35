"""Hosts of the tests' own: network namespaces joined by a bridge, and cuts between them.

Everything is inside namespaces that are made here and removed at the end; the machine's own network
is not touched. A cut from A to B is a wrong hardware address for B in A's table: packets leave and
are dropped, as with a broken cable, and neither side gets an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOWHERE = "02:00:00:00:ff:ff"
_DEVICE = "eth0"


def missing() -> str | None:
    """Why there can be no such hosts here, in a sentence; None if there can."""
    if shutil.which("ip") is None:
        return "network namespaces need the 'ip' command (iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = f"ottla-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False)
    if made.returncode:
        return f"no network namespace can be made here: {made.stderr.decode().strip()}"
    subprocess.run(["ip", "netns", "delete", probe], check=False)
    return None


class Network:
    """Named hosts on one network, each with its own address."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._prefix = f"ottla-{os.getpid()}-"
        self._switch = f"{self._prefix}switch"
        self.addresses = {name: f"10.77.0.{number}" for number, name in enumerate(hosts, 1)}

    @classmethod
    def existing(cls, hosts: Sequence[str], owner: int) -> Network:
        """The network that another process has created."""
        network = cls(hosts)
        network._prefix = f"ottla-{owner}-"
        network._switch = f"{network._prefix}switch"
        return network

    def build(self) -> None:
        """Make it. Raises CalledProcessError."""
        _ip("netns", "add", self._switch)
        self._on(self._switch, "link", "add", "bridge", "type", "bridge")
        self._on(self._switch, "link", "set", "bridge", "up")
        for number, (name, address) in enumerate(self.addresses.items(), 1):
            space, port = self.namespace(name), f"port{number}"
            _ip("netns", "add", space)
            self._on(
                self._switch,
                *("link", "add", port, "type", "veth", "peer", "name", _DEVICE, "netns", space),
            )
            self._on(self._switch, "link", "set", port, "master", "bridge", "up")
            self._on(space, "link", "set", "lo", "up")
            self._on(space, "link", "set", _DEVICE, "address", f"02:00:00:00:00:{number:02x}")
            self._on(space, "addr", "add", f"{address}/24", "dev", _DEVICE)
            self._on(space, "link", "set", _DEVICE, "up")
        self.heal()

    def remove(self) -> None:
        """Remove the network and all processes in it. May be called again."""
        for name in [*map(self.namespace, self.addresses), self._switch]:
            pids = subprocess.run(
                ["ip", "netns", "pids", name], capture_output=True, text=True, check=False
            )
            for process_id in pids.stdout.split():
                subprocess.run(["kill", "-9", process_id], check=False, capture_output=True)
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def namespace(self, host: str) -> str:
        """Name of the host's network namespace."""
        return f"{self._prefix}{host}"

    def launcher(self, host: str) -> list[str]:
        """Command prefix that runs a command there."""
        return ["ip", "netns", "exec", self.namespace(host)]

    def cut(self, source: str, destination: str) -> None:
        """Cut one direction only: packets from the one do not reach the other."""
        self._point(source, destination, NOWHERE)

    def cut_both(self, one: str, other: str) -> None:
        """Cut both directions between two hosts."""
        self.cut(one, other)
        self.cut(other, one)

    def heal(self) -> None:
        """Remove all cuts."""
        for source in self.addresses:
            for number, destination in enumerate(self.addresses, 1):
                if source != destination:
                    self._point(source, destination, f"02:00:00:00:00:{number:02x}")

    def _point(self, source: str, destination: str, hardware: str) -> None:
        self._on(
            self.namespace(source),
            *("neigh", "replace", self.addresses[destination], "lladdr", hardware),
            *("dev", _DEVICE, "nud", "permanent"),
        )

    def _on(self, space: str, *command: str) -> None:
        _ip("-n", space, *command)


@contextmanager
def network(hosts: Sequence[str]) -> Iterator[Network]:
    """Make it, and remove it in the end."""
    made = Network(hosts)
    try:
        made.build()
        yield made
    finally:
        made.remove()


def _ip(*command: str) -> None:
    subprocess.run(["ip", *command], check=True, capture_output=True)
