"""The mark of a log that keeps messages of format 1, which comes before the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.log.flushing import save_leader_epochs_locked
from ottla.broker.log.storage.checkpoints import replace_file
from ottla.broker.log.storage.names import KEPT_FORMAT, KEPT_MARK, join

if TYPE_CHECKING:
    from ottla.broker.log.open_log import OpenLog


async def admit_messages(log: OpenLog) -> None:
    """Let the log keep messages of format 1 from now on, durably: without the mark, a start would
    rewrite them, or take them for damage.

    The leader epochs are saved as well, since messages do not carry them. Raises
    KafkaError(KAFKA_STORAGE_ERROR)."""
    async with log.lock:
        log.ensure_usable()
        if log.keeps_messages:
            return
        try:
            await replace_file(log.home.disk, join(log.directory, KEPT_FORMAT), KEPT_MARK)
            await save_leader_epochs_locked(log)
        except OSError as error:
            what = f"cannot mark that {log.directory} keeps messages of format 1"
            raise log.home.health.judge(what, error) from error
        log.keeps_messages = True
