"""The tables of the store in memory: the content of a simulated disk, which outlives the processes that write it."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TypeVar

from semq.store.broker.operations import StoreOp
from semq.store.rows import (
    ClientToken,
    InStream,
    InStreamKey,
    LedgerLine,
    OrderKey,
    Outbound,
    OutStream,
    OutStreamKey,
    Pending,
    RareChange,
    Recorded,
    Slot,
    Stored,
    SubmissionRefusal,
    Submitted,
    TargetWait,
)
from semq.umx_t.locator import LK0, Pos

Row = TypeVar("Row", Outbound, OutStream, InStream, Pending)


def _copier(row_type: type[Row]) -> Callable[[Row], Row]:
    read = attrgetter(*row_type.__struct_fields__)
    return lambda row: row_type(*read(row))


copy_outbound = _copier(Outbound)
copy_pending = _copier(Pending)
copy_out_stream = _copier(OutStream)
copy_in_stream = _copier(InStream)


@dataclass(slots=True)
class Tables:
    """The content of the disk. Rows in it are never changed in place, so a snapshot is a copy of the dictionaries."""

    store_uuid: str
    boot: int = 0
    inc: int = 0
    owner: int = 0  #: number of takeovers; a writer with a smaller number is fenced
    outbound: dict[int, Outbound] = field(default_factory=dict)
    relayed: dict[str, int] = field(default_factory=dict)  #: object_ids of the hub's copies, by LK0
    bodies: dict[int, Stored] = field(default_factory=dict)
    tokens: dict[str, ClientToken] = field(default_factory=dict)
    out_streams: dict[OutStreamKey, OutStream] = field(default_factory=dict)
    last_pos: dict[OrderKey, Pos] = field(default_factory=dict)
    in_streams: dict[InStreamKey, InStream] = field(default_factory=dict)
    recorded: dict[Slot, Recorded] = field(default_factory=dict)
    seen: dict[str, Recorded] = field(default_factory=dict)
    pending: dict[int, Pending] = field(default_factory=dict)
    pending_bodies: dict[int, Stored] = field(default_factory=dict)
    submitted: dict[int, Submitted] = field(default_factory=dict)
    refused: dict[int, SubmissionRefusal] = field(default_factory=dict)  #: by number of the submission
    taken: dict[int, LK0] = field(default_factory=dict)  #: the messages that submissions became
    waits: dict[str, TargetWait] = field(default_factory=dict)  #: by target, the first submission that waits
    #: Numbers of submissions, by earlier LK0s
    renamed: dict[str, int] = field(default_factory=dict)
    #: By bref, documents that applications finished (None), or parked (with this reason)
    done: dict[int, str | None] = field(default_factory=dict)
    ledger: list[LedgerLine] = field(default_factory=list)
    broker: list[StoreOp] = field(default_factory=list)
    rare_rows: list[RareChange] = field(default_factory=list)

    def snapshot(self) -> "Tables":
        copy = Tables(self.store_uuid)
        copy.restore(self)
        return copy

    def restore(self, backup: "Tables") -> None:
        """Replace the content with a backup; open writers are fenced."""
        owner = self.owner + 1
        for f in fields(self):
            value = getattr(backup, f.name)
            setattr(self, f.name, value.copy() if isinstance(value, dict | list) else value)
        self.owner = owner
