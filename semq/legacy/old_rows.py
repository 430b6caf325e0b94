"""Reading of one row of an older SEMQ: the task of the import and the attributes, or why the row is refused."""

import binascii
import re
from base64 import b64decode
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from semq.errors import BadInput, SemqError
from semq.legacy.mapping import OUTBOUND, PENDING, OldTable
from semq.umx_t.address import Address, NodeType, parse_address
from semq.umx_t.app_key import NO_KEY, AppKey, check_app_key
from semq.umx_t.locator import LK0, parse_lk0

INC = 0  # incarnation in the LK0 of all older messages; a store of this SEMQ never draws 0
WHOLE_NUMBER = re.compile(r"[0-9]{1,18}")
FLAGS = {"": None, "0": False, "1": True, "false": False, "true": True}
SHOWN_MAX = 60  # characters of a wrong value in an error


class RowTask(StrEnum):
    """The task of the import for a row."""

    SEND = "send"  #: never sent: submit it
    ASK = "ask"  #: may have arrived: ask the receiver, and submit it if the receiver does not have it
    NOTE = "note"  #: has arrived here: note that, because the import at its sender will ask
    FINISHED = "finished"


class Reason(StrEnum):
    """The reason why a row cannot be imported."""

    BAD_ID = "its record number is not a number"
    SAME_ID = "another row has its record number"
    BAD_STATUS = "its status is not in the mapping"
    BAD_TARGET = "its target is not an address"
    BAD_SOURCE = "its source is not an institution, or its SEMQ numbers are not valid"
    OTHER_SOURCE = "another institution has sent it: import the row at the node of that institution"
    BAD_ATTRIBUTE = "one of its attributes has a value that is not allowed"
    BAD_APP_KEY = "its AppKey is not allowed"
    NO_PAYLOAD = "it has no payload"
    BAD_PAYLOAD = "its payload is neither bytes nor a text in the encoding of the mapping"
    SEALED = "its payload is under a session key of the older SEMQ: let the application send it again"
    NO_MESSAGE = "it is not a message between two users"


class OldRowRefused(BadInput):
    """A row of the older SEMQ cannot be imported."""

    code = "SEMQ-2507"

    def __init__(self, reason: Reason, value: object = "") -> None:
        super().__init__(f"{reason.value[0].upper()}{reason.value[1:]}.", value=str(value)[:SHOWN_MAX])
        self.reason = reason


class OldRow(Struct, frozen=True):
    """A row that can be imported."""

    kind: str  #: tb_0031, tb_0030 or tb_0032
    object_id: int
    task: RowTask
    status: str  #: status in the older SEMQ; for tb_0030 those of the hub and of the sender, separated by /
    lk0: str = ""  #: locator of the message in the older SEMQ; empty for to-do rows
    target: str = ""
    sender: str = ""  #: user who sends a message within the institution; else empty
    app_key: AppKey = NO_KEY
    save_fwd: int = 3
    ack2: bool | None = None
    reliable: bool = True
    fixed: bool = False
    encrypt: bool = False

    @property
    def token(self) -> str:
        """The token of the submission, the same at each import of the row."""
        return f"import:{self.kind}:{self.lk0 or self.object_id}"

    def digest(self, payload: bytes) -> str:
        """Return the digest of addresses, AppKey and payload. It tells apart two documents with the same token.

        Tokens contain a record number, and to-do rows of two older databases may have the same number.
        """
        digest = sha256("\0".join((self.target, self.sender, str(self.app_key), "")).encode())
        digest.update(payload)
        return digest.hexdigest()


def read_row(table: OldTable, values: Mapping[str, object], own: Address) -> OldRow:
    """Return the row with its task. Raises OldRowRefused.

    The keys of ``values`` are the names of the mapping, not those of columns. ``own`` is the institution of the node.
    """
    row = {name: _text(value) for name, value in values.items()}
    object_id = _whole_number(row.get("object_id", ""), Reason.BAD_ID)
    if table.kind == PENDING:
        return _received(table, row, object_id)
    return _outbound(table, row, object_id, own) if table.kind == OUTBOUND else _to_do(table, row, object_id, own)


def read_payload(value: object, encoding: str) -> bytes:
    """Return the bytes of a payload; ``encoding``: for a payload that is a text. Raises OldRowRefused."""
    if value is None:
        raise OldRowRefused(Reason.NO_PAYLOAD)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):  # the original bytes of a number are not known
        raise OldRowRefused(Reason.BAD_PAYLOAD, f"{type(value).__name__} {value}")
    try:
        if encoding == "base64":
            return b64decode(value, validate=True)
        return bytes.fromhex(value) if encoding == "hex" else value.encode()
    except (binascii.Error, ValueError) as error:
        raise OldRowRefused(Reason.BAD_PAYLOAD, error) from error


def _outbound(table: OldTable, row: Mapping[str, str], object_id: int, own: Address) -> OldRow:
    lk0 = _lk0(row, row.get("lk0_object_id") or str(object_id), row.get("lk0_node") or row.get("source") or own.id)
    status = _status(table, row.get("status", ""))
    ack2 = _flag(row, "ack2")
    is_finished = status == "SS_ACK2" or (status == "SS_ACK" and ack2 is False)
    if lk0.node != own and not is_finished:
        raise OldRowRefused(Reason.OTHER_SOURCE, lk0.node)
    task = RowTask.FINISHED if is_finished else RowTask.SEND if status == "SS_INIT" else RowTask.ASK
    if task is not RowTask.FINISHED and row.get("session_key"):
        raise OldRowRefused(Reason.SEALED)
    save_fwd = row.get("save_fwd") or "3"
    if save_fwd not in ("1", "2", "3"):
        raise OldRowRefused(Reason.BAD_ATTRIBUTE, f"@SaveFwd={save_fwd}")
    reliable = _flag(row, "reliable")
    return OldRow(
        table.kind, object_id, task, status, str(lk0), _target(row), "", _app_key(row), int(save_fwd), ack2,
        reliable is not False, bool(_flag(row, "fixed")), bool(_flag(row, "encrypt")),
    )  # fmt: skip


def _received(table: OldTable, row: Mapping[str, str], object_id: int) -> OldRow:
    lk0 = _lk0(row, row.get("lk0_object_id", ""), row.get("lk0_node", ""))
    columns = [name for name in ("platform_status", "sender_status") if name in row]
    statuses = [_status(table, row[name] or "AS_INIT") for name in columns]
    is_finished = bool(statuses) and set(statuses) == {"AS_ACK"}
    task = RowTask.FINISHED if is_finished else RowTask.NOTE
    return OldRow(table.kind, object_id, task, "/".join(statuses) or "AS_INIT", str(lk0))


def _to_do(table: OldTable, row: Mapping[str, str], object_id: int, own: Address) -> OldRow:
    status = _status(table, row.get("status") or "OPEN")
    if status == "DONE":
        return OldRow(table.kind, object_id, RowTask.FINISHED, status)
    if not row.get("sender") or not row.get("target_user"):
        raise OldRowRefused(Reason.NO_MESSAGE)
    sender = _address(f"{own}/{row['sender']}", Reason.NO_MESSAGE)
    target = _address(f"{own}/{row['target_user']}", Reason.NO_MESSAGE)
    return OldRow(table.kind, object_id, RowTask.SEND, status, "", str(target), sender.user, _app_key(row))


def _lk0(row: Mapping[str, str], object_id: str, node: str) -> LK0:
    source = _address(node, Reason.BAD_SOURCE)
    numbers = [_whole_number(row.get(name) or "1", Reason.BAD_SOURCE) for name in ("lk0_semq_id", "lk0_semq_db_id")]
    if source.type != NodeType.LOCAL or source.user:
        raise OldRowRefused(Reason.BAD_SOURCE, node)
    lk0 = LK0(source.type, source.id, numbers[0], numbers[1], INC, _whole_number(object_id, Reason.BAD_ID))
    try:
        return parse_lk0(str(lk0))
    except SemqError as error:
        raise OldRowRefused(Reason.BAD_SOURCE, lk0) from error


def _target(row: Mapping[str, str]) -> str:
    user = row.get("target_user", "")
    text = row.get("target", "")
    return str(_address(f"{text}/{user}" if user else text, Reason.BAD_TARGET))


def _address(text: str, reason: Reason) -> Address:
    try:
        return parse_address(text)
    except BadInput as error:
        raise OldRowRefused(reason, text) from error


def _app_key(row: Mapping[str, str]) -> AppKey:
    try:
        return check_app_key(AppKey(*(row.get(name, "") for name in ("domain", "type", "subtype", "key"))))
    except BadInput as error:
        raise OldRowRefused(Reason.BAD_APP_KEY, error) from error


def _status(table: OldTable, text: str) -> str:
    try:
        return table.status[text]
    except KeyError:
        raise OldRowRefused(Reason.BAD_STATUS, text) from None


def _flag(row: Mapping[str, str], name: str) -> bool | None:
    try:
        return FLAGS[row.get(name, "").lower()]
    except KeyError:
        raise OldRowRefused(Reason.BAD_ATTRIBUTE, f"{name}={row[name]}") from None


def _whole_number(text: str, reason: Reason) -> int:
    if not WHOLE_NUMBER.fullmatch(text):
        raise OldRowRefused(reason, text)
    return int(text)


def _text(value: object) -> str:
    """Return a value as text without surrounding white space; NULL becomes an empty text, a boolean 0 or 1."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace").strip()
    return str(value).strip()
