"""What encryption costs the broker: handshakes, produce and fetch, beside plaintext.

One broker process with a listener of each kind; the figures count its CPU time. The load is one
thread for each connection, which sends a prebuilt frame and reads the answer.
"""

from __future__ import annotations

import socket
import ssl
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from benchmarks import foreign
from benchmarks.beside.apache_kafka import VERSIONS, KafkaProcess, is_available
from benchmarks.frames import batch_of, fetch_frame, metadata_frame, produce_frame
from benchmarks.harness import KEEPING, cpu_seconds
from tests.support import certificates
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOST = "127.0.0.1"
MEBIBYTE = 1 << 20
# A batch of this size and its request fit the clients' default limit of 1 MiB.
LARGE_BYTES = MEBIBYTE - 2000
RUNS = 5
CONNECTIONS = 2
REQUESTS = 512
HANDSHAKES = 400
# Beside Apache Kafka, whose compiler needs some turns until its figures are what they are.
REQUESTS_BESIDE = 160
RUNS_BESIDE = 3
WARM_UP = 2
SERVED_TRIES = 120
Figures = dict[str, float]
# linux/tcp.h; the standard library does not name it.
TCP_ULP = 31


class _Measured(Protocol):
    """A broker with a plaintext listener and one that encrypts."""

    @property
    def process_id(self) -> int: ...

    @property
    def port(self) -> int: ...

    @property
    def tls_port(self) -> int: ...


class _TwoListeners(BrokerProcess):
    """``tls_port`` encrypts; the other one does not."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        (self.tls_port,) = free_ports(1)
        self._settings = {
            **KEEPING,
            "listeners": f"PLAINTEXT://{HOST}:{self.port},SSL://{HOST}:{self.tls_port}",
            "ssl.keystore.location": certificates.store("broker"),
            "ssl.truststore.location": certificates.trust(),
            "ssl.client.auth": "requested",
        }

    def command(self) -> list[str]:
        """The command line without a port: both are in ``listeners``."""
        command = super().command()
        at = command.index("--port")
        del command[at : at + 2]
        for name, value in self._settings.items():
            command += ["-o", f"{name}={value}"]
        return command


@contextmanager
def _broker() -> Iterator[_TwoListeners]:
    with tempfile.TemporaryDirectory() as folder:
        broker = _TwoListeners(Path(folder) / "data")
        with broker:
            yield broker


def _context(*, shows_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.trust())
    if shows_certificate:
        context.load_cert_chain(certificates.store("client"))
    return context


def _connected(
    port: int, context: ssl.SSLContext | None, session: ssl.SSLSession | None = None
) -> socket.socket:
    plain = socket.create_connection((HOST, port))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is None:
        return plain
    return context.wrap_socket(plain, server_hostname=HOST, session=session)


def _session(port: int, context: ssl.SSLContext) -> ssl.SSLSession | None:
    """A session to resume, which comes with the first answer; None if the broker offers none, as
    Ottla does: a resumed session would outlive the certificate that it rests on."""
    with _connected(port, context) as first:
        _exchange(first, metadata_frame(), 1)
        assert isinstance(first, ssl.SSLSocket)
        session = first.session
        # While it is open: OpenSSL forgets the session of a connection that is cut.
        with _connected(port, context, session) as second:
            assert isinstance(second, ssl.SSLSocket)
            return session if second.session_reused else None


def _exchange(connected: socket.socket, frame: bytes, requests: int) -> None:
    answer = memoryview(bytearray(2 * MEBIBYTE))
    for _ in range(requests):
        connected.sendall(frame)
        filled, wanted = 0, 4
        while filled < wanted:
            filled += connected.recv_into(answer[filled:])
            if wanted == 4 and filled >= 4:
                wanted = 4 + int.from_bytes(answer[:4])


def _cost(broker: _Measured, work: Callable[[], None]) -> float:
    """CPU seconds of the broker while ``work`` runs in each of the threads."""
    before = cpu_seconds(broker.process_id)
    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return cpu_seconds(broker.process_id) - before


def _gb_per_core_second(
    broker: _Measured,
    port: int,
    context: ssl.SSLContext | None,
    frame: bytes,
    requests: int = REQUESTS,
) -> float:
    def work() -> None:
        with _connected(port, context) as connected:
            _exchange(connected, frame, requests)

    return CONNECTIONS * requests * LARGE_BYTES / 1e9 / _cost(broker, work)


def _handshakes_per_core_second(
    broker: _Measured, context: ssl.SSLContext | None, session: ssl.SSLSession | None = None
) -> float:
    port = broker.port if context is None else broker.tls_port

    def work() -> None:
        for _ in range(HANDSHAKES):
            _connected(port, context, session).close()

    return CONNECTIONS * HANDSHAKES / _cost(broker, work)


def _kernel_has_tls() -> bool:
    """Whether the kernel would encrypt, which takes its module and OP_ENABLE_KTLS of Python."""
    with (
        socket.create_server((HOST, 0)) as listener,
        socket.create_connection(listener.getsockname()[:2]) as connected,
    ):
        try:
            connected.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        except OSError:
            return False
    return hasattr(ssl, "OP_ENABLE_KTLS")


def tls() -> Figures:
    """Handshakes, produce and fetch of 1 MiB over TLS, beside plaintext, per core second."""
    figures: dict[str, list[float]] = {}
    with _broker() as broker:
        foreign.create_topic(f"{HOST}:{broker.port}", "t")
        produce = produce_frame("t", 0, batch_of(LARGE_BYTES, 1000))
        ask = fetch_frame("t", 0, 0, MEBIBYTE)
        for number in range(RUNS + 1):
            for name, port, context in (
                ("plaintext", broker.port, None),
                ("tls", broker.tls_port, _context()),
            ):
                for verb, frame in (("produce", produce), ("fetch", ask)):
                    rate = _gb_per_core_second(broker, port, context, frame)
                    if number:
                        figures.setdefault(f"{name}_{verb}_gb_per_core_second", []).append(rate)
            for name, context in (
                ("plaintext_connections", None),
                ("handshakes", _context()),
                ("handshakes_with_client_certificate", _context(shows_certificate=True)),
            ):
                rate = _handshakes_per_core_second(broker, context)
                if number:
                    figures.setdefault(f"{name}_per_core_second", []).append(rate)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    return {**medians, "kernel_has_tls": float(_kernel_has_tls())}


def _told(broker: _Measured, context: ssl.SSLContext) -> Figures:
    """One turn of all loads at one broker."""
    produce = produce_frame("t", 0, batch_of(LARGE_BYTES, 1000))
    ask = fetch_frame("t", 0, 0, MEBIBYTE)
    found = {
        f"{name}_{verb}_gb_per_core_second": _gb_per_core_second(
            broker, port, of_port, frame, REQUESTS_BESIDE
        )
        for name, port, of_port in (
            ("plaintext", broker.port, None),
            ("tls", broker.tls_port, context),
        )
        for verb, frame in (("produce", produce), ("fetch", ask))
    }
    session = _session(broker.tls_port, context)
    found["handshakes_per_core_second"] = _handshakes_per_core_second(broker, context)
    if session is not None:
        resumed = _handshakes_per_core_second(broker, context, session)
        found["resumed_handshakes_per_core_second"] = resumed
    return found


def _kafka(folder: Path) -> KafkaProcess:
    options = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.store("broker"),
        "log.segment.bytes": str(1 << 30),
    }
    return KafkaProcess(VERSIONS[0], folder, options, encrypts=True)


def _until_served(port: int) -> None:
    for _ in range(SERVED_TRIES):
        try:
            socket.create_connection((HOST, port)).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise TimeoutError(f"Apache Kafka does not serve port {port}")


def tls_beside_kafka() -> Figures:
    """The same beside Apache Kafka 3.9, turn by turn; resumed handshakes where they are offered."""
    if not is_available():
        return {}
    figures: dict[str, list[float]] = {}
    context = _context()
    with tempfile.TemporaryDirectory() as folder, _broker() as ours, _kafka(Path(folder)) as theirs:
        _until_served(theirs.port)
        foreign.create_topic(f"{HOST}:{ours.port}", "t")
        foreign.create_topic(theirs.address, "t")
        for number in range(RUNS_BESIDE + WARM_UP):
            for name, broker in (("ottla", ours), ("kafka", theirs)):
                found = _told(broker, context)
                if number >= WARM_UP:
                    for row, value in found.items():
                        figures.setdefault(f"{name}_{row}", []).append(value)
    return {name: statistics.median(values) for name, values in figures.items()}


TLS_MEASUREMENTS: dict[str, Callable[[], Figures]] = {
    "tls": tls,
    "tls_beside_kafka": tls_beside_kafka,
}
