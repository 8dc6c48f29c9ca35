"""A consumer of a group in ZooKeeper, which writes each message on a line.

Arguments: ZooKeeper, the consumer's id, the session timeout in milliseconds.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from ottla.classic import ConsumerConnector


def main(zookeeper: str, name: str, session_ms: str) -> None:
    """Read topic ``t`` until SIGTERM."""
    connector = ConsumerConnector(
        {
            "zookeeper.connect": zookeeper,
            "group.id": "g",
            "consumer.id": name,
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": 500,
            "zookeeper.session.timeout.ms": session_ms,
            "rebalance.backoff.ms": 500,
            "rebalance.max.retries": 60,
        }
    )

    def leave(*_: Any) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)
    try:
        for message in connector.create_message_streams({"t": 1})["t"][0]:
            sys.stdout.buffer.write((message.message or b"") + b"\n")
            sys.stdout.buffer.flush()
    finally:
        connector.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
