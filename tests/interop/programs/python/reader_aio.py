"""One consumer of a group, step by step: aiokafka. Its event loop is stopped between the steps."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import aiokafka
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import NoOffsetForPartitionError

from tests.interop.programs.python.steps import Step, run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WAIT_S = 90


class Reader:
    """The consumer, and the record that came while it was waited for its first position."""

    def __init__(self) -> None:
        self.consumer: Any = None
        self.group = ""
        self.where: Any = None
        self.early: list[int] = []

    async def hello(self, _step: Step) -> dict[str, Any]:
        return {"client": "aiokafka", "version": aiokafka.__version__}

    async def open(self, step: Step) -> dict[str, Any]:
        self.group = step["group"]
        self.where = TopicPartition(step["topic"], 0)
        self.consumer = AIOKafkaConsumer(
            step["topic"],
            bootstrap_servers=sys.argv[1],
            group_id=self.group,
            auto_offset_reset=step["reset"],
            enable_auto_commit=step["auto_commit_ms"] > 0,
            auto_commit_interval_ms=step["auto_commit_ms"] or 5_000,
        )
        await self.consumer.start()
        try:
            while not (await self._take(1) or self.consumer.assignment()):
                pass
            start = self.early[0] if self.early else await self.consumer.position(self.where)
        except NoOffsetForPartitionError:
            start = None
        return {"start": start}

    async def _take(self, count: int) -> list[int]:
        found = await self.consumer.getmany(timeout_ms=200, max_records=count)
        self.early += [one.offset for one in found.get(self.where, ())]
        return self.early

    async def poll(self, step: Step) -> dict[str, Any]:
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while len(self.early) < step["count"] and asyncio.get_running_loop().time() < deadline:
            await self._take(step["count"] - len(self.early))
        found, self.early = self.early, []
        return {"offsets": found}

    async def idle(self, step: Step) -> dict[str, Any]:
        await asyncio.sleep(step["seconds"])
        return {}

    async def seek(self, step: Step) -> dict[str, Any]:
        self.early = []
        self.consumer.seek(self.where, step["offset"])
        return {}

    async def commit(self, step: Step) -> dict[str, Any]:
        if "offset" in step:
            await self.consumer.commit({self.where: (step["offset"], step["metadata"])})
        else:
            await self.consumer.commit()
        return {}

    async def committed(self, _step: Step) -> dict[str, Any]:
        """Its consumer gives the number alone, so the administrator's client is asked."""
        found = await _administer(lambda admin: admin.list_consumer_group_offsets(self.group))
        found = found[self.where]
        return {"offset": found.offset, "metadata": found.metadata}

    async def close(self, _step: Step) -> dict[str, Any]:
        await self.consumer.stop()
        return {}

    async def groups(self, _step: Step) -> dict[str, Any]:
        found = await _administer(lambda admin: admin.list_consumer_groups())
        return {"groups": [one[0] for one in found]}

    async def describe_group(self, step: Step) -> dict[str, Any]:
        found = await _administer(lambda admin: admin.describe_consumer_groups([step["group"]]))
        error_code, _name, state, _kind, _protocol, members, *_ = found[0].groups[0]
        assert error_code == 0, error_code
        return {"state": state, "members": len(members)}


async def _administer(work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Do the work with an administrator's client and stop it."""
    admin = AIOKafkaAdminClient(bootstrap_servers=sys.argv[1])
    await admin.start()
    try:
        return await work(admin)
    finally:
        await admin.close()


def main() -> None:
    """One event loop for all steps."""
    loop, reader = asyncio.new_event_loop(), Reader()

    def served(function: Any) -> Callable[[Step], dict[str, Any]]:
        return lambda step: loop.run_until_complete(function(step))

    run(
        {
            function.__name__: served(function)
            for function in (
                reader.hello,
                reader.open,
                reader.poll,
                reader.idle,
                reader.seek,
                reader.commit,
                reader.committed,
                reader.close,
                reader.groups,
                reader.describe_group,
            )
        }
    )


if __name__ == "__main__":
    main()
