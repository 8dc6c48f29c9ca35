"""Bugs in the metadata store's clients and in the contest for the controller's place."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "lease-counts-from-the-answer",
        "coordinator/store/zookeeper_channel.py",
        "        self.last_answer_ms = max(self.last_answer_ms, call.sent_ms)\n",
        "        self.last_answer_ms = max(self.last_answer_ms, self._clock.now_ms())\n",
        "The lease starts when the broker sends the question, not when the answer arrives.",
        ("tests/coordinator/store/test_zookeeper_channel.py",),
    ),
    Mutant(
        "old-connection-is-believed",
        "coordinator/store/zookeeper_channel.py",
        "        if self._state is not SessionState.CONNECTED or "
        "call.connection != self._connection:\n",
        "        if self._state is not SessionState.CONNECTED:\n",
        "An answer of an earlier connection counts for nothing.",
        ("tests/coordinator/store/test_zookeeper_channel.py",),
    ),
    Mutant(
        "answers-pass-the-queue",
        "coordinator/store/served/server.py",
        "        store.when_settled(lambda: self._tell(session, answer))\n",
        "        self._tell(session, answer)\n",
        "A served session hears answers and watch events in the order of the store's queue.",
        ("tests/coordinator/store/served/test_connections.py",),
    ),
    Mutant(
        "old-connection-is-read",
        "coordinator/store/served/server.py",
        "            self.connection.stream.close()\n        self.session",
        "            pass\n        self.session",
        "A session's new connection ends the one before, with what is unread there.",
        ("tests/coordinator/store/served/test_connections.py",),
    ),
    Mutant(
        "rolled-on-before-the-isrs",
        "broker/processes/fleet.py",
        "        if not missing and self._all_serve():\n",
        "        if self._all_serve():\n",
        "A rolling restart stops no broker before the last one is in all of its ISRs.",
        ("tests/broker/processes/test_fleet.py",),
    ),
    Mutant(
        "dead-controller-buried-unguarded",
        "broker/controlling/controller.py",
        "            Replace(paths.CONTROLLER_EPOCH, paths.build_number(epoch), "
        "found.stat.version),\n",
        "            Replace(paths.CONTROLLER_EPOCH, paths.build_number(epoch)),\n",
        "An election to replace a dead controller is guarded by the controller epoch read before.",
        ("tests/broker/controlling/test_controllership.py", "tests/broker/test_peer_watch.py"),
    ),
    Mutant(
        "won-without-the-epoch",
        "broker/controlling/controller.py",
        "            and stored == epoch\n",
        "",
        "After a lost answer the place counts as won only with the epoch that was tried.",
        ("tests/broker/membership/test_lifecycle.py",),
    ),
    Mutant(
        "controllers-request-dies-with-its-sender",
        "broker/partitions/control.py",
        "        answer: asyncio.Future[ControlResponse] = "
        "asyncio.get_running_loop().create_future()\n"
        '        self._tasks.spawn("request of the controller", self._answer(request, answer))\n'
        "        return await answer\n",
        "        return await self._carry_out(request)\n",
        "A broker carries out a request of the controller even if the controller has gone.",
        ("tests/broker/partitions/test_control.py",),
    ),
    Mutant(
        "requests-overtake-each-other",
        "broker/partitions/control.py",
        "        async with self._lock:\n            if self._is_over:\n",
        "        if True:\n            if self._is_over:\n",
        "The controller's requests are carried out one after the other.",
        ("tests/broker/partitions/test_control.py",),
    ),
    Mutant(
        "watch-heard-once",
        "broker/controlling/controller_queue.py",
        "            self._marks.discard(item)\n",
        "            pass\n",
        "The controller, the settings and the registration use watches as hints only.",
        (
            "tests/broker/controlling/test_controllership.py",
            "tests/broker/controlling/test_controller_failover.py",
        ),
    ),
    Mutant(
        "life-of-the-leader-not-checked",
        "coordinator/controller/writes.py",
        "    return [Check(paths.generation(one.node_id), one.generation) for one in known]\n",
        "    return []\n",
        "A change of a partition's state checks the incarnation of the leader that it names.",
        ("tests/broker/controlling/test_controller_races.py",),
    ),
    Mutant(
        "deposed-controller-stops-replicas",
        "broker/partitions/partitions.py",
        "            if request.controller_epoch < self._controller_epoch:\n"
        "                return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)\n",
        "",
        "A request from a controller with an older epoch is rejected.",
        ("tests/broker/partitions/test_older_epochs.py",),
    ),
    Mutant(
        "deposed-controller-tells-the-news",
        "broker/metadata/metadata.py",
        "        if request.controller_epoch < self.image.controller_epoch:\n"
        "            return UpdateMetadataResponse(ErrorCode.STALE_CONTROLLER_EPOCH)\n",
        "",
        "A request from a controller with an older epoch is rejected.",
        ("tests/broker/metadata/test_metadata.py",),
    ),
)
