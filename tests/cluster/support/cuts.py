"""Program on the client's host: a cluster under load whose network is cut and healed.

``python -m tests.cluster.support.cuts OWNER ROUNDS SEED FOLDER`` prints the number of acknowledged
records in its last line. It ends with status 0 only if nothing failed.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.support.load import PARTITIONS, TOPIC, Load, check
from tests.cluster.support.namespaces import Network
from tests.cluster.support.real import RealCluster
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Callable

BROKERS = ("broker-1", "broker-2", "broker-3")
HOSTS = (*BROKERS, "zookeeper", "client")
OPTIONS = {"zookeeper.session.timeout.ms": "4000", "replica.lag.time.max.ms": "4000"}
CUT_S = (0.5, 9.0)
PROBED = "probed"
# A second is usual; the rest is for busy machines.
HEALED_WITHIN_S = 30.0


def from_peers(network: Network, victim: str) -> None:
    """A leader that keeps its clients and its session, and loses its followers (R-18)."""
    for other in BROKERS:
        if other != victim:
            network.cut_both(victim, other)


def from_all_but_clients(network: Network, victim: str) -> None:
    """A leader that only its clients can still reach (R-19)."""
    from_peers(network, victim)
    network.cut_both(victim, "zookeeper")


def from_store(network: Network, victim: str) -> None:
    """A broker without its session, in the midst of its peers."""
    network.cut_both(victim, "zookeeper")


def one_way(network: Network, victim: str) -> None:
    """Cut one direction: the host receives, and the others do not hear it."""
    for other in (*BROKERS, "zookeeper"):
        if other != victim:
            network.cut(victim, other)


def from_all_hosts(network: Network, victim: str) -> None:
    """A broker whose cable was pulled."""
    for other in HOSTS:
        if other != victim:
            network.cut_both(victim, other)


CUTS: tuple[Callable[[Network, str], None], ...] = (
    from_peers,
    from_all_but_clients,
    from_store,
    one_way,
    from_all_hosts,
)


def story(network: Network, folder: Path, rounds: int, seed: int) -> int:
    """Cut, heal, and be whole again; how many records were acknowledged."""
    chance = random.Random(seed)
    zookeeper = ZooKeeperServer(
        host=network.addresses["zookeeper"], launcher=network.launcher("zookeeper")
    )
    with (
        zookeeper,
        RealCluster(folder, zookeeper.address, options=OPTIONS, network=network) as cluster,
    ):
        cluster.create_topic(TOPIC, PARTITIONS)
        cluster.create_topic(PROBED, PARTITIONS)
        load = Load(cluster.bootstrap)
        try:
            for number in range(rounds):
                cut = CUTS[number] if number < len(CUTS) else chance.choice(CUTS)
                victim, length_s = chance.choice(BROKERS), chance.uniform(*CUT_S)
                print(f"{cut.__name__} {victim} for {length_s:.1f} s", flush=True)
                load.wait_for_progress()
                cut(network, victim)
                time.sleep(length_s)
                network.heal()
                healed_s = cluster.wait_until_healed(PROBED)
                cluster.wait_until_whole(TOPIC)
                print(f"whole after {healed_s:.1f} s", flush=True)
                assert healed_s < HEALED_WITHIN_S, cluster.stories()
                load.wait_for_progress()
        finally:
            network.heal()
            load.finish()
        check(load, cluster.bootstrap)
        return len(load.acked)


def main(arguments: list[str]) -> int:
    """Run the story in the network that the owner has made."""
    owner, rounds, seed = (int(number) for number in arguments[:3])
    network = Network.existing(HOSTS, owner)
    print(story(network, Path(arguments[3]), rounds, seed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
