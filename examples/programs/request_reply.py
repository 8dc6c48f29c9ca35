"""Request and reply: asking a service by a topic, and getting the answer by another one.

    python examples/programs/request_reply.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from contextlib import suppress

import ottla

# %% A cluster in this process, or the one whose address is given. Two headers make a request: where
# the answer goes, and a number by which the asker knows it.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
REPLY_TO, CORRELATION = "reply-to", "correlation-id"


# %% The service: a member of a group, so that several instances share the requests.
async def serve() -> None:
    """Answer in capital letters, until cancelled."""
    async with (
        ottla.Consumer(servers, group_id="shouters", offset_reset="earliest") as requests,
        ottla.Producer(servers, linger_ms=0) as replies,
    ):
        await requests.subscribe(["requests"])
        async for request in requests:
            headers = dict(request.headers)
            target = (headers[REPLY_TO] or b"").decode()
            answer = (request.value or b"").upper()
            await replies.send(target, answer, headers=((CORRELATION, headers[CORRELATION]),))


# %% The asker: one reply topic of its own, one future for each request that is under way.
class Asker:
    """Sends requests and hands out the answers."""

    def __init__(self, producer: ottla.Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._waiting: dict[bytes | None, asyncio.Future[bytes | None]] = {}

    async def ask(self, question: bytes) -> bytes | None:
        """The answer to it."""
        number = uuid.uuid4().bytes
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        headers = ((REPLY_TO, self._topic.encode()), (CORRELATION, number))
        await self._producer.send("requests", question, headers=headers)
        return await asyncio.wait_for(answer, 30)

    async def listen(self, replies: ottla.Consumer) -> None:
        """Run until cancelled. Replies that no caller waits for any more are dropped."""
        async for reply in replies:
            waiting = self._waiting.pop(dict(reply.headers)[CORRELATION], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(reply.value)


# %% Both together. The reply topic is read from its end, without a group, by one client.
async def main() -> list[bytes | None]:
    """Three questions at once."""
    topic = f"replies-{uuid.uuid4().hex[:8]}"
    async with ottla.Admin(servers) as admin:
        await admin.create_topics([ottla.NewTopic(name, 1, 1) for name in ("requests", topic)])
    async with (
        ottla.Producer(servers, linger_ms=0) as producer,
        ottla.Consumer(servers, offset_reset="earliest") as replies,
    ):
        replies.assign([ottla.TopicPartition(topic, 0)])
        asker = Asker(producer, topic)
        work = [asyncio.create_task(serve()), asyncio.create_task(asker.listen(replies))]
        answers = await asyncio.gather(*map(asker.ask, (b"hello", b"is anyone", b"there")))
        for task in work:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return answers


answers = asyncio.run(main())
print(answers)
# -> [b'HELLO', b'IS ANYONE', b'THERE']
assert answers == [b"HELLO", b"IS ANYONE", b"THERE"]
cluster.stop()
