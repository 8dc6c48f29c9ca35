"""Loads what serves the versions of Kafka before 0.11, when the first request of one comes.

Of most brokers none is ever asked, so imports stand in functions here as in handlers.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.api.handlers import Handler


def produce() -> Handler:
    from ottla.broker.handlers.old.produce import handle

    return handle


def fetch() -> Handler:
    from ottla.broker.handlers.old.fetch import handle

    return handle


def list_offsets() -> Handler:
    from ottla.broker.handlers.old.list_offsets import handle

    return handle


def offset_commit() -> Handler:
    from ottla.broker.handlers.old.offsets import commit

    return commit


def offset_fetch() -> Handler:
    from ottla.broker.handlers.old.offsets import fetch as fetch_offsets

    return fetch_offsets
