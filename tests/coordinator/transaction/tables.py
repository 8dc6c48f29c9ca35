"""The tables in the docstrings of the machine, read as what the tests expect."""

from __future__ import annotations

from ottla.coordinator.transaction.metadata import TransactionMetadata
from ottla.coordinator.transaction.states import TransactionState
from tests.coordinator.transaction.scene import A0, FIRST_PRODUCER_ID, TIMEOUT_MS, WALL_MS

STATES = {
    state.label: state
    for state in TransactionState
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
}


def read_table(docstring: str | None, corner: str) -> dict[tuple[str, str], str]:
    """(row, column) -> cell of the table whose upper left corner says that."""
    assert docstring is not None
    lines = iter(docstring.splitlines())
    heads: list[str] = next(_cells(line) for line in lines if line.startswith(f"| {corner} "))
    table = {}
    for line in lines:
        if not line.startswith("|"):
            break
        row, *cells = _cells(line)
        if not row.startswith("--"):
            table.update({(row, head): cell for head, cell in zip(heads[1:], cells, strict=True)})
    return table


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def example(state: TransactionState, producer_epoch: int = 5) -> TransactionMetadata:
    """An id in that state, of a producer that bumps its epoch."""
    has_ended = state.is_prepared or state.is_complete
    is_open = state is TransactionState.ONGOING or state.is_prepared
    return TransactionMetadata(
        FIRST_PRODUCER_ID,
        producer_epoch,
        TIMEOUT_MS,
        state,
        frozenset({A0} if is_open else ()),
        last_update_wall_ms=WALL_MS,
        start_wall_ms=-1 if state is TransactionState.EMPTY else WALL_MS,
        client_version=2,
        previous_producer_id=FIRST_PRODUCER_ID,
        last_producer_epoch=producer_epoch - 1 if has_ended else -1,
    )
