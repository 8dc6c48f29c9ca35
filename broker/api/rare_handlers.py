"""Loads what few brokers are asked for, when the first request of one comes: the versions of Kafka
before 0.11, and client telemetry.

Imports stand in functions here as in handlers.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.broker.api.handlers import Handler, MakeStraight


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


def get_telemetry_subscriptions() -> Handler:
    from ottla.broker.handlers.cluster.telemetry import get_subscriptions

    return get_subscriptions


def push_telemetry() -> Handler:
    from ottla.broker.handlers.cluster.telemetry import push

    return push


def list_config_resources() -> Handler:
    from ottla.broker.handlers.cluster.config_resources import handle

    return handle


def fetch_many() -> MakeStraight:
    from ottla.broker.handlers.data.fetch_many import straight

    return straight
