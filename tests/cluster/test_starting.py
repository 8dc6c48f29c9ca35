"""What a client gets from a real broker's address while that broker restarts."""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pathlib import Path

# Metadata, version 1, correlation id 7, client id "x", no topics.
QUESTION = struct.pack(">ihhih1si", 15, 3, 1, 7, 1, b"x", 0)
ANSWERED, REFUSED, CLOSED = "answered", "nobody listens", "closed"


def ask(port: int) -> str:
    """One connection and its first request."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=90) as client:
            client.sendall(QUESTION)
            answer = client.recv(8)
            return ANSWERED if answer[4:] == struct.pack(">i", 7) else CLOSED
    except ConnectionRefusedError:
        return REFUSED
    except ConnectionError:
        return CLOSED


def test_clients_of_a_broker_that_starts_are_refused_or_answered(tmp_path: Path) -> None:
    """Killed and started again, it closes no connection at its first request: some clients take
    that for wrong credentials and give up."""
    seen: list[str] = []
    is_over = threading.Event()

    def knock(port: int) -> None:
        while not is_over.is_set():
            seen.append(ask(port))
            time.sleep(0.002)

    broker = BrokerProcess(tmp_path / "data")
    broker.start().kill()
    clients = [threading.Thread(target=knock, args=(broker.port,)) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        broker.start()
        is_over.set()
    finally:
        is_over.set()
        for client in clients:
            client.join()
        broker.kill()

    assert CLOSED not in seen
    assert REFUSED in seen
    assert ANSWERED in seen
