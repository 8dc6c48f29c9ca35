"""Bugs in connections, handler slots and the dispatch of requests."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "answers-leave-as-they-come",
        "broker/network/output.py",
        "            if parts is None:\n                break\n            pipeline.popleft()\n",
        "            if parts is None:\n"
        "                pipeline.rotate(-1)\n"
        "                if all(one.parts is None for one in pipeline):\n"
        "                    break\n"
        "                continue\n"
        "            pipeline.popleft()\n",
        "Responses leave in the order of the requests, whatever completes first.",
        ("tests/broker/network/test_requests.py",),
    ),
    Mutant(
        "paused-request-keeps-its-handler",
        "broker/network/channel.py",
        "            self._pause(handler, request, coroutine.coroutine)\n"
        "            return False\n",
        "            coroutine = coroutine.coroutine\n",
        "A request that waits for another broker occupies no handler slot.",
        ("tests/broker/network/test_channel.py",),
    ),
    Mutant(
        "handler-lost-when-cancelled",
        "broker/network/channel.py",
        "        self.free.append(handler)\n        connection.open_lane()\n",
        "        connection.open_lane()\n",
        "A handler slot is free again when its request has ended.",
        ("tests/broker/network/test_channel.py", "tests/broker/network/test_requests.py"),
    ),
    Mutant(
        "region-that-ended-early-is-padded",
        "broker/network/output.py",
        "        if sent == 0:\n"
        '            raise OSError(errno.EIO, "a file region ended early", file.path)\n',
        "        if sent == 0:\n            self._items.popleft()\n            return 0, False\n",
        "A file that is cut under an answer closes the connection.",
        ("tests/broker/network/test_zero_copy.py",),
    ),
    Mutant(
        "answers-after-an-end-are-sent",
        "broker/network/output.py",
        "                pipeline.clear()\n"
        "                self.has_ended = True\n                break\n",
        "                self.has_ended = True\n                continue\n",
        "What was asked after the end of a connection gets no answer.",
        ("tests/broker/network/test_requests.py", "tests/broker/network/test_output.py"),
    ),
)
