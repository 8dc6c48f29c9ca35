"""Client settings for commands: short timeouts, because a user waits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.client.cli.arguments import INT32_MAX
from ottla.client.cli.connection import with_given
from ottla.client.settings.config import (
    Acks,
    ClientConfig,
    Compression,
    ConsumerConfig,
    Isolation,
    ProducerConfig,
)

if TYPE_CHECKING:
    import argparse

    from ottla.client.settings.config import OffsetReset

CLIENT_ID = "ottla-cli"
ACKS: dict[str, Acks] = {"0": 0, "1": 1, "all": "all", "-1": "all"}
CALL_TIMEOUT_MS = 15_000
REQUEST_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_MS = 5_000
DELIVERY_TIMEOUT_MS = 30_000


def command_config(call_timeout_ms: int = CALL_TIMEOUT_MS) -> ClientConfig:
    """The settings of commands that send requests as an Admin."""
    return with_given(
        ClientConfig(
            client_id=CLIENT_ID,
            call_timeout_ms=call_timeout_ms,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
        )
    )


def producer_config(
    acks: Acks, compression: Compression, timeout_s: int | None = None
) -> ProducerConfig:
    """The settings of ``ottla produce``.

    ``timeout_s``: how long the brokers may acknowledge nothing, 0 for ever; None for the default.
    """
    timeout_ms = DELIVERY_TIMEOUT_MS if timeout_s is None else timeout_s * 1000 or INT32_MAX
    return with_given(
        ProducerConfig(
            client_id=CLIENT_ID,
            acks=acks,
            compression=compression,
            call_timeout_ms=CALL_TIMEOUT_MS,
            request_timeout_ms=min(REQUEST_TIMEOUT_MS, timeout_ms // 2),
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            delivery_timeout_ms=timeout_ms,
            delivery_waits_for_progress=True,
        )
    )


def perf_producer_config(
    arguments: argparse.Namespace, linger_ms: float | None = None
) -> ProducerConfig:
    """The settings of ``ottla perf``, from the options that its verbs have."""
    linger: float = getattr(arguments, "linger", 5) if linger_ms is None else linger_ms
    return with_given(
        ProducerConfig(
            client_id=CLIENT_ID,
            acks=ACKS[getattr(arguments, "acks", "all")],
            compression=getattr(arguments, "compression", "none"),
            linger_ms=linger,
            batch_bytes=getattr(arguments, "batch_bytes", 64 * 1024),
            call_timeout_ms=CALL_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS + linger,
        )
    )


def consumer_config(*, read_committed: bool) -> ConsumerConfig:
    """The settings of ``ottla consume``, which looks up its positions itself; a reset only happens
    if retention has overtaken it."""
    return with_given(
        ConsumerConfig(
            client_id=CLIENT_ID,
            offset_reset="earliest",
            isolation=Isolation.READ_COMMITTED if read_committed else Isolation.READ_UNCOMMITTED,
            call_timeout_ms=CALL_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
        )
    )


def member_config(arguments: argparse.Namespace, reset: OffsetReset) -> ConsumerConfig:
    """The settings of ``ottla consume -g``."""
    return replace(
        consumer_config(read_committed=arguments.read_committed),
        group_id=arguments.group,
        group_protocol=arguments.group_protocol,
        offset_reset=reset,
    )


def first_batch_config() -> ConsumerConfig:
    """The settings for reading one batch, with as little as possible of what follows it."""
    return with_given(
        ConsumerConfig(
            client_id=CLIENT_ID,
            offset_reset="none",
            partition_bytes_max=1,
            fetch_bytes_max=1,
            call_timeout_ms=CALL_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
        )
    )
