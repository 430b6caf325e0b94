"""The changes of a unit as one batch of statements and, for many rows, as data for COPY.

A batch commits in the same round trip, because a statement fails if a row is not as expected. In the tables of
messages and ledgers, deletions come first, then changes, then new rows, so that a unit can use a freed key.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain, count
from typing import Any

from psycopg.adapt import Buffer

from semq.store.broker.statements import NetEffect
from semq.store.postgres.conversion.binary import Packer, Param, copy_of, int2, int4, int8, int8s, moment, texts
from semq.store.postgres.conversion.rows import (
    STATUS,
    line_values,
    outbound_values,
    pack_changes,
    pending_values,
    recorded_values,
)
from semq.store.postgres.statements import INSERTED, LINES_TOGETHER, copy_in
from semq.store.rows import (
    Certificates,
    KeptKey,
    KeptReceipts,
    NewPiece,
    NoticeDue,
    Outbound,
    PieceGone,
    PiecesGone,
    RetiredStore,
    Submitted,
)
from semq.store.unit import Needs, Unit
from semq.store.work import RECEIVED_BODIES, SENT_BODIES
from semq.umx_t.pieces import NOTICE_NUMBER
from semq.umx_t.status import AppStatus

Batch = list[tuple[str, Sequence[Param]]]
NewRows = dict[str, list[Sequence[Any]]]  # by table; values in the order of the columns

LEDGER = "semq_ledger"
BULKY = 256 * 1024  # bytes of a large body
# Table | index of the body among the values of a row.
BODIES = (("tb_0031_body", 2), ("tb_0030_body", 2), ("broker_body", 2), ("broker_message", 8))
FIRST_ID = 1 << 40  # record ids of a store are above this number; those of submissions by SQL are below
_TABLES = [table.name for table in INSERTED]
LOADED = {*Needs.__struct_fields__, "pending_bodies", "found"}
STAGED = [name for name in Unit.__struct_fields__ if name not in LOADED and name != "submissions_wait"]


def is_read_only(unit: Unit) -> bool:
    """Return whether nothing was staged."""
    # Most units with changes have lines.
    return not unit.ledger and unit.submissions_wait is None and not any(getattr(unit, name) for name in STAGED)


def changes(unit: Unit) -> Batch:
    """Return the statements for everything except new rows of large tables and operations of the broker."""
    batch: Batch = []
    _outbound_changes(unit, batch)
    _stream_changes(unit, batch)
    _pending_changes(unit, batch)
    _submission_changes(unit, batch)
    for row in unit.rare_changes:
        batch.append((type(row).__name__, _RARE[type(row)](row)))
    return batch


def statements_and_rows(unit: Unit, line_numbers: "count[int]") -> tuple[Batch, NewRows]:
    """Return the statements and new rows of a unit. ``line_numbers``: for new lines of the ledger."""
    batch, rows = changes(unit), new_rows(unit, line_numbers)
    if unit.broker:
        net = NetEffect(unit.broker)
        batch += net.batch()
        rows.update(net.rows())
    return batch, rows


def _outbound_changes(unit: Unit, batch: Batch) -> None:
    by_statuses: dict[tuple[Param, Param], list[int]] = defaultdict(list)
    for object_id, (row, before) in unit.deleted_outbound.items():
        by_statuses[STATUS[before], None if row.outcome is None else STATUS[row.outcome]].append(object_id)
    batch += [("delete_outbound", [int8s(ids), *statuses]) for statuses, ids in by_statuses.items()]
    if unit.changed_outbound:
        by_change: dict[tuple[Param, ...], list[Outbound]] = defaultdict(list)
        for object_id, before in unit.changed_outbound.items():
            row = unit.outbound[object_id]
            by_change[STATUS[before], *pack_changes(row)].append(row)
        batch += [
            ("change_outbound", [int8s([row.object_id for row in rows]), _custodians(rows), *change])
            for change, rows in by_change.items()
        ]
    if unit.dropped_bodies:
        batch.append(("drop_payload", [int8s(unit.dropped_bodies)]))
    batch += [("replace_envelope", [int8(number), envelope]) for number, envelope in unit.new_envelopes.items()]
    for object_id, body in unit.new_bodies.items():
        if object_id not in unit.new_outbound:
            batch.append(("replace_body", [int8(object_id), body.envelope, body.payload]))
            batch.append(("change_size", [int8(object_id), int8(unit.outbound[object_id].size)]))
    for token, token_row in unit.new_tokens.items():
        batch.append(("new_token", [token.encode(), str(token_row.lk0).encode(), token_row.digest]))
    for token, token_row in unit.cancelled_tokens.items():
        batch.append(("keep_token", [token.encode(), str(token_row.lk0).encode(), token_row.digest]))


def _custodians(rows: Sequence[Outbound]) -> Param:
    custodians = [None if row.custodian is None else str(row.custodian) for row in rows]
    return texts(custodians) if any(custodians) else None


def _stream_changes(unit: Unit, batch: Batch) -> None:
    if unit.changed_out_streams:
        streams = [unit.out_streams[key] for key in unit.changed_out_streams]
        batch.append((
            "save_out_streams",
            [
                texts([stream.key.dest for stream in streams]),
                int8s([stream.key.inc for stream in streams]),
                int8s([stream.next_sid for stream in streams]),
            ],
        ))  # fmt: skip
    if unit.changed_last_pos:
        positions = [(key, unit.last_pos[key]) for key in unit.changed_last_pos]
        batch.append((
            "save_last_pos",
            [
                texts([key.dest for key, _ in positions]),
                texts([key.key for key, _ in positions]),
                int8s([pos.inc for _, pos in positions]),
                int8s([pos.sid for _, pos in positions]),
            ],
        ))  # fmt: skip
    for in_key in unit.raised_floors:
        risen = unit.in_streams[in_key]
        batch.append(("forget", [int8(risen.number), int8(risen.floor)]))
    for slot in unit.replaced_recorded:
        batch.append(("delete_unproved", [int8(unit.in_streams[slot.stream].number), int8(slot.sid)]))
    for in_key in unit.changed_in_streams:
        stream = unit.in_streams[in_key]
        closed = None if stream.closed is None else int8(stream.closed)
        values = [int8(stream.number), str(in_key.store).encode(), int8(in_key.inc), int8(stream.floor), closed]
        batch.append(("in_stream", values))


def _pending_changes(unit: Unit, batch: Batch) -> None:
    if unit.deleted_pending:
        batch.append(("delete_pending", [int8s(unit.deleted_pending)]))
    # New rows are inserted with present values; changes of deleted rows are not written.
    for name in ("platform_acked", "sender_acked", "given", "taken_back"):
        changed = getattr(unit, name) - unit.new_pending.keys() - unit.deleted_pending
        if changed:
            batch.append((name, [int8s(changed)]))
    handled: dict[AppStatus, list[int]] = defaultdict(list)
    for bref, status in unit.changed_app_status.items():
        if bref not in unit.new_pending and bref not in unit.deleted_pending:
            handled[status].append(bref)
    batch += [("handled", [int8s(brefs), STATUS[status]]) for status, brefs in handled.items()]
    if unit.new_seen:
        entries = unit.new_seen.values()
        reasons = [entry.reason or (None, None) for entry in entries]
        columns = [texts([str(lk0) for lk0 in unit.new_seen]), texts([str(lk0.store) for lk0 in unit.new_seen])]
        columns += [int8s([entry.status for entry in entries]), texts([code for code, _ in reasons])]
        batch.append(("new_seen", [*columns, texts([text for _, text in reasons])]))


def _submission_changes(unit: Unit, batch: Batch) -> None:
    for row in unit.new_submissions.values():
        batch.append(("new_submission", _submission_values(row)))
    if unit.due_submissions:
        batch.append(("due_submissions", [int8s(unit.due_submissions)]))
    lk0s = unit.taken_submissions | {number: refusal.lk0 for number, refusal in unit.refused_submissions.items()}
    if scheduled := [number for number in lk0s if number >= FIRST_ID]:
        names = texts([str(lk0s[number]) for number in scheduled])
        batch.append(("renamed_scheduled", [int8s(scheduled), names]))
    if unit.taken_submissions:
        numbers = int8s(unit.taken_submissions)
        batch.append(("taken_submissions", [numbers]))
        batch.append(("submission_became", [numbers, texts([str(lk0) for lk0 in unit.taken_submissions.values()])]))
    for number, refusal in unit.refused_submissions.items():
        code, words = refusal.reason
        values = [code.encode(), words.encode(), str(refusal.lk0).encode(), moment(refusal.at)]
        batch.append(("refused_submission", [int8(number), *values]))
    for number, (code, words) in unit.waiting_submissions.items():
        batch.append(("submission_waits", [int8(number), code.encode(), words.encode()]))
    if unit.requeued_submissions:
        batch.append(("renamed_submissions", [int8s(unit.requeued_submissions)]))
        batch.append(("requeued_submissions", [int8s(unit.requeued_submissions)]))
    if unit.removed_submissions:
        batch.append(("removal_became", [int8s(unit.removed_submissions)]))
        batch.append(("removed_submissions", [int8s(unit.removed_submissions)]))
    if unit.submissions_wait is not None:
        waits = unit.submissions_wait
        batch.append(("submissions_wait_no_more", [texts(waits)]))
        codes, words_ = zip(*(wait.reason for wait in waits.values()), strict=True) if waits else ((), ())
        numbers = int8s([wait.number for wait in waits.values()])
        batch.append(("submissions_wait", [texts(waits), numbers, texts(codes), texts(words_)]))
    if unit.taken_done:
        batch.append(("taken_done", [int8s(unit.taken_done)]))


def _submission_values(row: Submitted) -> list[Param]:
    return [
        int8(row.row_id), row.target.encode(), row.payload, row.app_key.encode(), int2(row.save_fwd), int2(row.ack2),
        row.order_key.encode(), row.token.encode(), row.content_type.encode(), row.content_encoding.encode(),
        int2(row.priority), row.lk0.encode(), row.envelope, moment(row.not_before), (row.headers or "{}").encode(),
    ]  # fmt: skip


# Class | packed values of the fields: parameters of the statement with the name of the class.
_RARE: dict[type, Callable[[Any], Sequence[Param]]] = {
    KeptKey: lambda row: [row.id, row.peer.encode(), row.key_id.encode(), row.alg.encode(), row.text.encode()],
    KeptReceipts: lambda row: [int8(row.number), row.source.encode(), row.signature.encode(), row.leaves],
    Certificates: lambda row: [row.node.encode(), texts(row.pems)],
    RetiredStore: lambda row: [int8(row.semq_id), int8(row.semq_db_id), row.retired_by.encode(), row.why.encode()],
    NewPiece: lambda row: [int8(row.document), int4(row.number), row.payload],
    NoticeDue: lambda row: [int8(row.document), int4(NOTICE_NUMBER), row.notice],
    PieceGone: lambda row: [int8(row.document), int4(row.number)],
    PiecesGone: lambda row: [int8(row.document), int4(row.below)],
}


def new_rows(unit: Unit, line_numbers: "count[int]") -> NewRows:
    """Return the new rows, without those of the broker."""
    rows: NewRows = defaultdict(list)
    if unit.new_outbound:
        rows["tb_0031"] = [outbound_values(row) for row in unit.new_outbound.values()]
        rows["tb_0031_body"] = [
            (object_id, body.envelope, body.payload)
            for object_id, body in unit.new_bodies.items()
            if object_id in unit.new_outbound
        ]
    if unit.new_pending:
        rows["tb_0030"] = [pending_values(row) for row in unit.new_pending.values()]
        rows["tb_0030_body"] = [(bref, body.envelope, body.payload) for bref, body in unit.new_pending_bodies.items()]
    for slot, entry in unit.new_recorded.items():
        stream = unit.in_streams[slot.stream]
        if slot.sid >= stream.floor:  # entries below are not kept
            rows["tb_0030_ledger"].append(recorded_values(stream.number, slot.sid, entry))
    if unit.ledger:
        rows[LEDGER] = [line_values(next(line_numbers), line) for line in unit.ledger]
    return rows


def nothing_stored(table: str, payload: bytes) -> int | None:
    """Return None: a ``key_of`` for stores that write no bodies ahead of rows."""
    return None


def use_stored_bodies(rows: NewRows, key_of: Callable[[str, bytes], int | None]) -> Batch:
    """Remove stored bodies from the new rows; return statements that give these bodies the keys of the rows.

    ``key_of`` returns the key under which a body is stored, or None.
    """
    batch: Batch = []
    for table in (SENT_BODIES, RECEIVED_BODIES):
        not_stored = []
        for row in rows.get(table, ()):
            key, envelope, payload = row
            if (stored_key := key_of(table, payload)) is None:
                not_stored.append(row)
            else:
                batch.append((f"take {table}", [int8(stored_key), int8(key), envelope]))
        if not_stored or table in rows:
            rows[table] = not_stored
    return batch


def packed_lines(rows: NewRows, packer: Packer) -> list[bytearray]:
    """Return the new lines of the ledger in the form of COPY."""
    return [packer.copy_row(LEDGER, values) for values in rows.get(LEDGER, ())]


def inserts(rows: NewRows, packer: Packer) -> Batch:
    """Return one INSERT for each row, and one for several lines of the ledger."""
    batch: Batch = [
        (f"insert {table}", packer.params(table, row))
        for table in _TABLES
        for row in rows.get(table, ())
        if table != LEDGER
    ]
    lines = [packer.params(LEDGER, row) for row in rows.get(LEDGER, ())]
    for start in range(0, len(lines), LINES_TOGETHER):
        part = lines[start : start + LINES_TOGETHER]
        name = f"insert {LEDGER}" if len(part) == 1 else f"insert {len(part)} lines"
        batch.append((name, list(chain.from_iterable(part))))
    return batch


def is_bulky(rows: NewRows) -> bool:
    """Return whether a new row has a large body."""
    return any(len(row[place]) >= BULKY for table, place in BODIES for row in rows.get(table, ()))


def copies(rows: NewRows, packer: Packer, lines: Sequence[Buffer]) -> tuple[str, list[Buffer]]:
    """Return the SQL text of a COPY for each table and a COMMIT, and the data of each COPY.

    ``lines``: the packed lines of the ledger.
    """
    filled = [table for table in _TABLES if rows.get(table)]
    data: list[Buffer] = [
        copy_of(lines) if table == LEDGER else packer.copy_data(table, rows[table]) for table in filled
    ]
    return "; ".join([*map(copy_in, filled), "COMMIT"]), data
