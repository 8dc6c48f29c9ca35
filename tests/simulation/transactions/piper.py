"""One life of a pipeline: read committed records, write one for each, and commit the position with
them (KIP-98). Where its group has no members the transactional id alone keeps zombies out; where it
has, each process has a separate id and the generation does it (KIP-447)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.checker.history import Call, Kind
from tests.simulation.groups.terms import LOST_PLACE
from tests.simulation.transactions.coordination import CoordinatorKind
from tests.simulation.transactions.membership import Membership
from tests.simulation.transactions.reading import CommittedReader, reads_of
from tests.simulation.transactions.teller import Doomed, Teller
from tests.simulation.transactions.terms import Wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.cluster.client import ClusterClient
    from tests.simulation.transactions.books import Books, Pipe
    from tests.simulation.transactions.terms import Terms

_GROUP = CoordinatorKind.GROUP
_RECORDS_MAX = 8


class Piper(Teller):
    """Owned by its process. ``is_over``: nothing will be written to the source any more."""

    def __init__(
        self,
        client: ClusterClient,
        books: Books,
        terms: Terms,
        pipe: Pipe,
        is_over: Callable[[], bool],
    ) -> None:
        super().__init__(client, books, terms)
        self.is_done = False
        self._pipe = pipe
        self._is_over = is_over
        self._reader = CommittedReader(client, pipe.source)
        self._membership: Membership | None = None
        if pipe.has_members:
            self._membership = Membership(client, self.coordinators, pipe.group, pipe.source)
            # The first version that knows of generations.
            oldest = max(3, self.versions.commit_offsets)
            self.versions = self.versions._replace(commit_offsets=oldest)
        self._position = 0
        # What the group has committed, as far as this one knows.
        self._expected = 0

    async def transact(self) -> None:
        """Take what comes next, if there is anything. Raises Fenced."""
        if self._membership is not None:
            is_ours = await self._membership.stay()
            self.books.surprises += self._membership.surprises
            self._membership.surprises.clear()
            if not is_ours:
                await self.client.pause()
                return
        was_over = self._is_over()
        start = await self._committed_position()
        if start != self._expected:
            # A rival has gone on from where this one was.
            self._expected = start
            self.books.note(self.client, Kind.OK, Call.ASSIGN)
        fetched = await self._reader.fetch(start)
        if fetched is None:
            return
        shown = fetched.shown[:_RECORDS_MAX]
        if not shown:
            self.is_done = was_over and fetched.is_end
            if fetched.next_offset == start:
                return
        whole = len(shown) == len(fetched.shown)
        self._position = fetched.next_offset if whole else shown[-1].offset + 1
        records = [Wanted(self._pipe.target, self.books.new_value(), one.value) for one in shown]
        if await self.carry_out(records, reads_of(self._pipe.source, shown)):
            self._expected = self._position

    async def _committed_position(self) -> int:
        """Once no transaction holds it open (KIP-447)."""
        topic, number = self._pipe.source
        request = OffsetFetchRequest(
            group_id=self._pipe.group,
            topics=[OffsetFetchRequestTopic(topic, [number])],
            require_stable=True,
        )
        version = self.versions.fetch_offsets
        while True:
            response = await self._ask_group(request, ApiKey.OFFSET_FETCH, version)
            if response is None:
                continue
            found = response.topics[0].partitions[0] if response.topics else None
            codes = {ErrorCode(response.error_code)}
            if found is not None:
                codes.add(ErrorCode(found.error_code))
            if codes == {ErrorCode.NONE} and found is not None:
                return max(0, int(found.committed_offset))
            for code in sorted(codes - {ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT}):
                self._judge(code, "OffsetFetch")
                self.coordinators.forget(_GROUP, self._pipe.group)
            await self.client.pause()

    async def before_end(self) -> None:
        """The position. Raises Fenced, Doomed."""
        if not self.versions.is_second:
            await self._add_offsets()
        await self._commit_offsets()

    async def _commit_offsets(self) -> None:
        topic, number = self._pipe.source
        request = TxnOffsetCommitRequest(
            transactional_id=self.terms.transactional_id,
            group_id=self._pipe.group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            generation_id_or_member_epoch=-1,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            number, self._position, committed_metadata=None
                        )
                    ],
                )
            ],
        )
        membership = self._membership
        if membership is not None:
            # Of the generation in which the records were taken, whatever has come since.
            request.member_id = membership.member_id
            request.generation_id_or_member_epoch = membership.generation
        version = self.versions.commit_offsets
        while True:
            response = await self._ask_group(request, ApiKey.TXN_OFFSET_COMMIT, version)
            if response is None:
                continue
            code = ErrorCode(response.topics[0].partitions[0].error_code)
            if code is ErrorCode.NONE:
                return
            if membership is not None and code in LOST_PLACE:
                membership.is_out(code)
                raise Doomed
            self._judge(code, "TxnOffsetCommit")
            self.coordinators.forget(_GROUP, self._pipe.group)
            await self.client.pause()

    async def _add_offsets(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.terms.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=self._pipe.group,
        )
        while True:
            response = await self._coordinator(
                request, ApiKey.ADD_OFFSETS_TO_TXN, self.versions.add_offsets
            )
            if response is None:
                continue
            code = ErrorCode(response.error_code)
            if code is ErrorCode.NONE:
                return
            self._judge(code, "AddOffsetsToTxn")
            await self._rest(code)

    async def _ask_group(self, request: object, api_key: ApiKey, version: int) -> Any | None:
        response = await self.coordinators.ask(_GROUP, self._pipe.group, request, api_key, version)
        if response is None:
            await self.client.pause()
        return response
