"""Commands that run within the test's own process, on a broker for them alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.client.cli.command import in_process
from tests.client.support.sites import broker_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.cli.command import Ottla
    from tests.client.support.sites import Apaches


@pytest.fixture
def ottla(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Ottla:
    """Runs a command at once."""
    monkeypatch.setenv("COLUMNS", "100")
    return in_process(capfdbinary)


@pytest.fixture(scope="session")
def broker(kind: str, apaches: Apaches) -> Iterator[str]:
    """Its address. Tests of commands make topics of everyday names."""
    with broker_of(kind, apaches, "commands") as address:
        yield address
