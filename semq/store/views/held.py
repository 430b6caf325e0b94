"""View of the copies that a hub stores, selected by a filter: their rows and row numbers in batches, and counts.
Read-only.
"""

from collections.abc import Iterator
from typing import Annotated, TypeVar

from msgspec import Meta, Struct
from sqlalchemy import Connection, Select, and_, func, select
from sqlalchemy.sql.elements import ColumnElement

from semq.answers import OperationAnswer
from semq.answers.messages import MessageRow
from semq.store.tables import tb_0031
from semq.store.views.messages import outbound_facts
from semq.umx_t.attribute_values import MOMENT_MAX
from semq.umx_t.status import Direction, SendStatus

C = tb_0031.c
T = TypeVar("T")
# Copies that an operator has refused. A copy with an unreadable body also has ``held``, but is in SS_INIT.
IS_REFUSED = and_(C.held, C.ss_status == SendStatus.SS_SENT)


class HeldFilter(Struct, frozen=True):
    """The selection of copies; a condition that is None matches every copy."""

    target: str | None = None  #: institution
    source: str | None = None  #: institution
    before_ms: Annotated[int, Meta(ge=0, le=MOMENT_MAX)] | None = None  #: stored before this time
    type: str | None = None  #: data type of the AppKey
    key: str | None = None  #: beginning of the key of the AppKey
    parked: bool | None = None  #: whether the hub sent it often and the target never recorded it
    after: int = 0  #: number of a row, exclusive
    limit: int = 500


class HeldSums(OperationAnswer, frozen=True, kw_only=True):
    """The copies of one source for one target."""

    source: str
    target: str
    rows: int
    bytes: int
    oldest_at: int  #: milliseconds since 1970 UTC
    markers: int  #: void markers
    only_copies: int  #: whose senders have kept no payload
    refused: int  #: by an operator; neither markers nor only_copies counts them


def list_held(connection: Connection, wanted: HeldFilter) -> list[MessageRow]:
    """Return the next selected copies, in the order in which they were stored."""
    return [outbound_facts(row) for row in connection.execute(_chosen(select(tb_0031), wanted))]


def held_numbers(connection: Connection, wanted: HeldFilter) -> list[int]:
    """Return the row numbers of the next selected copies, in ascending order."""
    return list(connection.execute(_chosen(select(C.object_id), wanted)).scalars())


def count_held(connection: Connection, wanted: HeldFilter) -> list[HeldSums]:
    """Return numbers of copies for each source and target; ``after`` and ``limit`` are ignored."""
    source = (func.split_part(C.lk0, ".", 1) + "." + func.split_part(C.lk0, ".", 2)).label("source")
    query = (
        select(
            source,
            C.dest.label("target"),
            func.count().label("rows"),
            func.coalesce(func.sum(C.size), 0).label("bytes"),
            func.min(C.accepted_at).label("oldest_at"),
            func.count().filter(C.void, ~IS_REFUSED).label("markers"),
            func.count().filter(~C.ack2, ~C.void, ~IS_REFUSED).label("only_copies"),
            func.count().filter(IS_REFUSED).label("refused"),
        )
        .where(*_conditions(wanted))
        .group_by(source, C.dest)
        .order_by(C.dest, source)
    )
    return [
        HeldSums(**row | {"bytes": int(row["bytes"]), "oldest_at": round(row["oldest_at"].timestamp() * 1000)})
        for row in map(dict, connection.execute(query).mappings())
    ]


def _chosen(query: Select[T], wanted: HeldFilter) -> Select[T]:
    return query.where(*_conditions(wanted), C.object_id > wanted.after).order_by(C.object_id).limit(wanted.limit)


def _conditions(wanted: HeldFilter) -> Iterator[ColumnElement[bool]]:
    yield C.direction == Direction.RELAYED
    if wanted.target is not None:
        yield C.dest == _node(wanted.target)
    if wanted.source is not None:
        yield C.lk0.startswith(_node(wanted.source) + ".", autoescape=True)
    if wanted.before_ms is not None:
        yield C.accepted_at < func.to_timestamp(wanted.before_ms / 1000)
    if wanted.type is not None:
        yield C.app_type == wanted.type
    if wanted.key is not None:
        yield C.app_key.startswith(wanted.key, autoescape=True)
    if wanted.parked is not None:
        yield C.parked == wanted.parked


def _node(name: str) -> str:
    return name if "." in name else f"1.{name}"
