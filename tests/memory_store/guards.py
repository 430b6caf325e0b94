"""The checks of Postgres, repeated for the store in memory: compare-and-set, keys, constraints, final outcomes.

Mutations of the simulator remove checks; its oracle must then find the damage.
"""

from typing import Any

from semq.store.postgres.errors import DecisionFailed
from semq.store.rows import CORRECTABLE, Outbound
from semq.store.unit import Unit
from semq.umx_t.status import Direction, Outcome, SaveFwd, SendStatus
from tests.memory_store.tables import Tables


def check(tables: Tables, unit: Unit) -> None:
    """Raise DecisionFailed if Postgres would refuse a change of the unit."""
    changed = [(unit.outbound[object_id], before) for object_id, before in unit.changed_outbound.items()]
    for row, before in (*changed, *unit.deleted_outbound.values()):
        stored, object_id = tables.outbound.get(row.object_id), row.object_id
        _guard(stored is not None and stored.ss_status is before, "compare-and-set", object_id=object_id, before=before)
        _guard(stored is None or _may_end(stored, row), "final", object_id=object_id)
        _check_outbound(row)
    for object_id, row in unit.new_outbound.items():
        _guard(object_id not in tables.outbound, "tb_0031 key", object_id=object_id)
        copy_id = tables.relayed.get(str(row.lk0))
        is_free = row.direction is Direction.OWN or copy_id is None or copy_id in unit.deleted_outbound
        _guard(is_free, "ident", ident=str(row.lk0))
        if row.direction is Direction.OWN and row.sid >= 0:
            _check_position(tables, row)
        _check_outbound(row)
    if unit.new_tokens or unit.new_recorded or unit.new_seen:
        _check_keys(tables, unit)
    for key in unit.changed_out_streams:
        out = tables.out_streams.get(key)
        _guard(out is None or unit.out_streams[key].next_sid >= out.next_sid, "positions rise", stream=key)
    for stream in unit.changed_in_streams:
        into = tables.in_streams.get(stream)
        _guard(into is None or unit.in_streams[stream].floor >= into.floor, "floors rise", stream=stream)
    for bref, pending in unit.new_pending.items():
        _guard(bref not in tables.pending, "tb_0030 key", bref=bref)
        recorded = pending.slot in unit.new_recorded if pending.is_class3 else pending.lk0 in unit.new_seen
        _guard(recorded, "one transaction for ledger and row", bref=bref)


def _may_end(stored: Outbound, row: Outbound) -> bool:
    """Return whether the new outcome of a row may be written (PROTOCOL.md S5c)."""
    corrected = row.outcome is Outcome.DELIVERED and stored.outcome in CORRECTABLE
    return corrected or stored.outcome in (None, row.outcome)


def _check_keys(tables: Tables, unit: Unit) -> None:
    for name, staged, stored in (
        ("token", unit.new_tokens, tables.tokens),
        ("ledger", unit.new_recorded.keys() - unit.replaced_recorded, tables.recorded),
        ("seen", map(str, unit.new_seen), tables.seen),
    ):
        taken = set(staged) & stored.keys() if staged else ()
        _guard(not taken, name, keys=[str(key) for key in taken])


def _check_position(tables: Tables, row: Outbound) -> None:
    """Check that no own row has the position of a new one."""
    place = (row.dest, row.lk0.inc, row.sid)
    own = (other for other in tables.outbound.values() if other.direction is Direction.OWN)
    is_taken = any((other.dest, other.lk0.inc, other.sid) == place for other in own if other.sid == row.sid)
    _guard(not is_taken, "position", place=place)


def _check_outbound(row: Outbound) -> None:
    delivered = row.outcome is Outcome.DELIVERED
    _guard(delivered == (row.ss_status is SendStatus.SS_ACK2), "delivered", object_id=row.object_id)
    _guard(row.void or not row.lost, "lost is void", object_id=row.object_id)
    sid_fits_class = (row.sid >= 0) == (row.save_fwd is SaveFwd.MUST)
    _guard(row.direction is Direction.RELAYED or sid_fits_class, "class 3 has a position", object_id=row.object_id)


def _guard(holds: bool, name: str, **facts: Any) -> None:
    if not holds:
        raise DecisionFailed(f"Guard '{name}' is violated.", **facts)
