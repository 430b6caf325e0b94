"""Census of the queues: rows grouped by the columns that decide whether and why a message is stuck. Read-only.

A group has the form of a row in ``messages``, as far as ``semq.engine.people.stuck`` reads it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, Select, and_, case, func, or_, select
from sqlalchemy.sql.elements import ColumnElement

from semq.answers.messages import MessageRow
from semq.store.tables import TableRow
from semq.store.views.messages import IN, IN_PIECE, NAMES, OUT, OUT_PIECE, owed
from semq.umx_t.status import AckStatus, AppStatus, Direction, SaveFwd

GROUPS_MAX = 20_000
MARKED_MAX = 10_000  # marked rows of one kind
Marks = Mapping[str, Sequence[int]]  # numbers of rows by mark; a mark is a fact that no column shows
Number = ColumnElement[int]  # column with the numbers of a table's rows
OWES_HUB, OWES_SENDER = owed(IN)


class CensusGroup(MessageRow, total=False):
    """Rows of one queue with equal columns; ``oldest_at`` is the time of the first, and ``id`` its number."""

    rows: int
    bytes: int
    oldest_at: int
    late: bool
    mark: str  #: a fact that no column shows; empty: none
    user: str  #: of NEW rows: the user whose inbox has them
    cause: str | None  #: why they are stuck (added by the count of a node)


Facts = Callable[[TableRow, str], CensusGroup]  # by row and mark


def groups(connection: Connection, late_before_ms: int, sent: Marks, received: Marks) -> list[CensusGroup]:
    """Return the groups of both queues; of each query, the GROUPS_MAX groups with the most rows.

    Open rows accepted or received before ``late_before_ms`` are late: sent ones without an outcome, and received ones
    that are NEW or whose acknowledgement is not noted.

    ``sent`` and ``received`` are the marked rows of the two queues, which form groups of their own.
    """
    # In one process: parallel ones would sort all rows, on the processors that pages and node need meanwhile.
    connection.execute(select(func.set_config("max_parallel_workers_per_gather", "0", True)))
    late_before = func.to_timestamp(late_before_ms / 1000)
    sent_groups = _divided(connection, _sent(late_before), OUT.object_id, sent, _outbound)
    return sent_groups + _divided(connection, _received(late_before), IN.bref, received, _inbound)


def _divided(
    connection: Connection, query: Select[*tuple[object, ...]], number: Number, marked: Marks, facts: Facts
) -> list[CensusGroup]:
    groups_by_key = {_key(row): facts(row, "") for row in connection.execute(query)}
    marked_groups = []
    for mark, numbers in marked.items():
        for row in connection.execute(query.where(number == func.any_(list(numbers)))) if numbers else ():
            marked_group = facts(row, mark)
            marked_groups.append(marked_group)
            if (group := groups_by_key.get(_key(row))) is not None:
                group["rows"] -= marked_group["rows"]
                group["bytes"] -= marked_group["bytes"]
    return [group for group in groups_by_key.values() if group["rows"] > 0] + marked_groups


def _key(row: TableRow) -> tuple[object, ...]:
    return tuple(row)[:-4]  # without the figures of ``_counted``


def _sent(late_before: ColumnElement[object]) -> Select[*tuple[object, ...]]:
    relayed = OUT.direction == Direction.RELAYED
    source = func.split_part(OUT.lk0, ".", 1) + "." + func.split_part(OUT.lk0, ".", 2)
    keys = [
        case((relayed, source), else_="").label("source"), OUT.dest, OUT.direction, OUT.ss_status, OUT.outcome,
        OUT.held, OUT.parked, OUT.void, OUT.reason_code,
        and_(OUT.outcome.is_(None), OUT.accepted_at < late_before).label("late"), OUT_PIECE.label("piece"),
    ]  # fmt: skip
    return _counted(keys, OUT.size, OUT.accepted_at, OUT.object_id)


def _received(late_before: ColumnElement[object]) -> Select[*tuple[object, ...]]:
    source = func.split_part(IN.store, ".", 1) + "." + func.split_part(IN.store, ".", 2)
    is_open = or_(IN.app_status == AppStatus.NEW, OWES_HUB, OWES_SENDER)
    keys = [
        source.label("source"), case((IN.app_status == AppStatus.NEW, IN.target_user), else_="").label("user"),
        IN.app_status, OWES_HUB.label("owes_hub"), OWES_SENDER.label("owes_sender"),
        IN.reason_code, and_(is_open, IN.received_at < late_before).label("late"), IN_PIECE.label("piece"),
    ]  # fmt: skip
    return _counted(keys, IN.size, IN.received_at, IN.bref)


def _counted(
    keys: Sequence[ColumnElement[object]], size: ColumnElement[int], at: ColumnElement[datetime], number: Number
) -> Select[*tuple[object, ...]]:
    figures = (func.sum(size).label("bytes"), func.min(at).label("oldest"), func.min(number).label("id"))
    return (
        select(*keys, func.count().label("rows"), *figures)
        .group_by(*keys)
        .order_by(func.count().desc())
        .limit(GROUPS_MAX)
    )


def _outbound(row: TableRow, mark: str) -> CensusGroup:
    group = _group(row, mark)
    group |= {
        "side": "outbound", "target": row.dest, "direction": NAMES["direction"](row.direction).name,
        "ss_status": NAMES["ss_status"](row.ss_status).name, "held": row.held, "parked": row.parked, "void": row.void,
        "outcome": None if row.outcome is None else NAMES["outcome"](row.outcome).name,
        "accepted_at": group["oldest_at"],
    }  # fmt: skip
    return group


def _inbound(row: TableRow, mark: str) -> CensusGroup:
    group = _group(row, mark)
    group |= {
        "side": "inbound", "target": "", "user": row.user, "app_status": NAMES["app_status"](row.app_status).name,
        "lk1": "" if row.owes_hub else None,
        "p_ack_status": AckStatus.AS_INIT.name if row.owes_hub else AckStatus.AS_ACK.name,
        "save_fwd": SaveFwd.MUST.value if row.owes_sender else SaveFwd.STORE.value,
        "s_ack_status": AckStatus.AS_INIT.name if row.owes_sender else AckStatus.AS_ACK.name,
        "received_at": group["oldest_at"],
    }  # fmt: skip
    return group


def _group(row: TableRow, mark: str) -> CensusGroup:
    """Return the facts of groups of both queues."""
    return {
        "source": row.source, "rows": row.rows, "bytes": int(row.bytes or 0), "id": row.id, "mark": mark,
        "oldest_at": round(row.oldest.timestamp() * 1000), "late": bool(row.late), "piece": row.piece,
        "reason": [row.reason_code, ""] if row.reason_code else None,
    }  # fmt: skip
