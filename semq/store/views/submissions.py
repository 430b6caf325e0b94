"""Looking at what applications handed over through SQL and the node has not accepted: refused, or waiting. Read-only.

Rows are shown as ``messages`` shows those of tb_0031, with ``submission``, their number in tb_0031_submit. A refused
one is named by the locator of its refusal, one that waits by ``sql-NUMBER``. Called by ``messages`` and ``failed``.
"""

from typing import Any

from sqlalchemy import Connection, and_, func, or_, select
from sqlalchemy.sql.elements import ColumnElement

from semq.store.submission_tables import tb_0031_submit, tb_0031_wait
from semq.umx_t.locator import parse_lk0
from semq.umx_t.short_name import read_short_name, short_name
from semq.umx_t.status import Direction, Outcome, SaveFwd, SendStatus

C, W = tb_0031_submit.c, tb_0031_wait.c
PREFIX = "sql-"
REJECTED = Outcome.REJECTED.name
IS_REFUSED = C.reason_code.is_not(None)


def named(connection: Connection, name: str, limit: int) -> list[dict[str, Any]]:
    """Those that a name may mean, newest first: ``sql-NUMBER``, locator, its number, or AppKey as in ``messages``."""
    digits = name.removeprefix(PREFIX)
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 19
    conditions: list[ColumnElement[bool]] = [and_(C.lk0 == name, IS_REFUSED)]
    if name.startswith(PREFIX) and is_number:
        conditions.append(C.number == int(digits))
    elif is_number:
        conditions.append(and_(func.split_part(C.lk0, ".", 6) == digits, IS_REFUSED))
    if (short := read_short_name(name)) is not None:
        conditions.append(and_(func.split_part(C.lk0, ".", 6) == str(short.object_id), IS_REFUSED))
    parts = name.split("/", 3)
    conditions.append(and_(C.app_key != "", C.app_key == name if len(parts) == 4 else key() == name))
    return _shown(connection, or_(*conditions), limit)


def listed(
    connection: Connection, limit: int, *, refused: bool | None = None, partner: str | None = None,
    type_: str | None = None, key_: str | None = None, code: str | None = None, since_ms: int | None = None,
    before_ms: int | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Those that fit, the newest first. ``refused``: only these, or only those that wait; ``before_ms``: submitted."""
    conditions: list[ColumnElement[bool]] = []
    if refused is not None:
        conditions.append(IS_REFUSED if refused else ~IS_REFUSED)
    if partner:
        node = partner.removeprefix("1.")
        conditions.append(func.split_part(C.target, "/", 1).in_([node, f"1.{node}"]))
    if type_:
        conditions.append(func.split_part(C.app_key, "/", 2) == type_)
    if key_:
        conditions.append(key().startswith(key_, autoescape=True))
    if code:
        conditions.append(C.reason_code == code)
    if since_ms is not None:
        conditions.append(C.submitted_at >= func.to_timestamp(since_ms / 1000))
    if before_ms is not None:
        conditions.append(C.submitted_at < func.to_timestamp(before_ms / 1000))
    return _shown(connection, and_(True, *conditions), limit)


def counts(connection: Connection, at_most: int = 10_000) -> dict[str, int]:
    """How many were refused, and how many wait; counts no further than ``at_most``."""

    def count(condition: ColumnElement[bool]) -> int:
        some = select(C.number).where(condition).limit(at_most).subquery()
        return int(connection.execute(select(func.count()).select_from(some)).scalar_one())

    return {"refused": count(IS_REFUSED), "waiting": count(C.reason_code.is_(None))}


def body(connection: Connection, number: int) -> bytes | None:
    """The payload that was handed over."""
    payload = connection.execute(select(C.payload).where(C.number == number)).scalar()
    return None if payload is None else bytes(payload)


def key() -> ColumnElement[str]:
    """The last part of the AppKey: all that follows the third slash."""
    return func.regexp_replace(C.app_key, "^([^/]*/){3}", "")


def _shown(connection: Connection, condition: ColumnElement[bool], limit: int) -> list[dict[str, Any]]:
    narrow = [column for column in tb_0031_submit.columns if column.name not in ("payload", "headers")]
    waits = and_(W.target == C.target, ~IS_REFUSED)
    query = (
        select(
            *narrow,
            func.octet_length(C.payload).label("size"),
            W.reason_code.label("wait_code"),
            W.reason_text.label("wait_text"),
        )
        .select_from(tb_0031_submit.outerjoin(tb_0031_wait, waits))
        .where(condition)
        .order_by(C.number.desc())
        .limit(limit)
    )
    return [_facts(row) for row in connection.execute(query)]


def _facts(row: Any) -> dict[str, Any]:
    is_refused = row.reason_code is not None
    node, _, user = row.target.partition("/")
    target = node if "." in node else f"1.{node}"
    code, words = (row.reason_code, row.reason_text) if is_refused else (row.wait_code, row.wait_text)
    at = _ms(row.submitted_at)
    lk0 = row.lk0 if is_refused and row.lk0 else f"{PREFIX}{row.number}"
    return {
        "side": "outbound",
        "name": short_name(lk0) or lk0,
        "direction": Direction.OWN.name,
        "id": parse_lk0(lk0).object_id if lk0 == row.lk0 else lk0,
        "lk0": lk0,
        "submission": row.number,
        "source": ".".join(lk0.split(".")[:2]) if lk0 == row.lk0 else "",
        "target": f"{target}/{user}" if user else target,
        "save_fwd": SaveFwd(row.save_fwd).value,
        "ack2": bool(row.ack2),
        "ss_status": SendStatus.SS_INIT.name,
        "outcome": REJECTED if is_refused else None,
        "reason": [code, words] if code else None,
        "order_key": row.order_key,
        "app_key": row.app_key,
        "token": row.token,
        "size": row.size,
        "digest": "",
        "att": 0,
        "held": False,
        "parked": False,
        "void": False,
        "has_payload": True,
        "accepted_at": at,
        "at": at,
        "failed_at": _ms(row.refused_at),
    }


def _ms(moment: Any) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
