"""The secure compose file in containers, by ``make interop``; skipped where there is no engine.

As processes it is tested in test_secure_as_processes.py; here volumes, owners and names are real.
"""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest

import ottla
from ottla.protocol.properties import parse_properties
from tests.compose.composition import SECURE_FILE
from tests.compose.containers import Containers
from tests.compose.containers import engine as engine

TOPIC = "orders"

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]


async def test_the_secure_file_lets_in_clients_with_the_file_that_it_makes(engine: Any) -> None:
    """Copied out of the container of its job, as its header says; the volumes have an owner that
    the image's user can write as."""
    with Containers(engine, SECURE_FILE) as running:
        archive, _stat = running.running["secure"].get_archive("/secure/client")
        with tarfile.open(fileobj=io.BytesIO(b"".join(archive))) as tar:
            file = tar.extractfile("client/client.properties")
            assert file is not None
            settings = parse_properties(file.read().decode())
        servers = settings.pop("bootstrap.servers")
        async with ottla.Admin(servers, security=settings) as admin:
            await admin.create_topic(ottla.NewTopic(TOPIC, 3))
        async with ottla.Producer(servers, security=settings) as producer:
            await (await producer.send(TOPIC, b"in"))
        code, words = running.running["broker1"].exec_run(["ls", "/secure", "/secure/broker-2"])
        assert code != 0 or not words.split(b"broker-2:")[-1].strip(), words
