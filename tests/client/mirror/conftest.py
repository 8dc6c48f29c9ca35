"""The clusters of most tests: one that is copied from, and one that is copied to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def west() -> Iterator[Cluster]:
    """A source."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def east() -> Iterator[Cluster]:
    """Another source."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def central() -> Iterator[Cluster]:
    """The target."""
    with Cluster() as cluster:
        yield cluster
