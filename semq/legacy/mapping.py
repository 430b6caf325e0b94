"""Mapping of the older tables: the meaning of columns and of their values.

The design of SEMQ names only the columns of the statuses, so an installation may need a mapping file. The file
contains only the differences from the default.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from semq.legacy.errors import BadMapping

OUTBOUND, PENDING, TO_DO = "tb_0031", "tb_0030", "tb_0032"
ENCODINGS = ("utf-8", "base64", "hex")
DEFAULT = """\
# Mapping of an older SEMQ for `semq import --mapping FILE`. Meaning = "column of the older table".
# A column that the table does not have leaves the meaning at its default; meanings marked * are required.

encoding = "utf-8"           # encoding of payloads that are texts (in CSV files all): utf-8, base64 or hex

[tb_0031]                    # outbound queue: what this institution sends
table = "tb_0031"

[tb_0031.columns]
object_id = "object_id"      # * record number; with the source and the two SEMQ numbers it identifies the message
status = "ss_status"         # * see [tb_0031.status]
source = "source"            # institution that sends (default: the node's own); rows of others are refused
target = "target"            # * institution that receives, "56001" or "1.56001"
target_user = "target_user"  # user of that institution
payload = "app_data"         # * the document
reliable = "reliable"        # @Reliable, by default 1
save_fwd = "save_fwd"        # @SaveFwd, by default 3
ack2 = "ack2"                # @Ack2, by default 1
fixed = "fixed"              # @Fixed, by default 0
encrypt = "encrypt"          # @Encrypt, by default 0
session_key = "session_key"  # @SessionKey: a payload sealed with it cannot be imported
domain = "app_domain"        # @AppKey, four parts
type = "app_type"
subtype = "app_subtype"
key = "app_key"
lk0_node = "lk0_node_id"     # @LK0 of the message, if it is not the identity of the row itself (in rows of a hub)
lk0_semq_id = "semq_id"      # by default 1
lk0_semq_db_id = "semq_db_id"
lk0_object_id = "lk0_object_id"

# Value of the column = status (the names themselves are understood, too)   # what the import does with the message
[tb_0031.status]
0 = "SS_INIT"                # sends it
1 = "SS_SENT"                # asks the receiver, and sends it if the receiver does not have it
2 = "SS_ACK_FWD"             # asks the receiver, and sends it if the receiver does not have it
3 = "SS_ACK"                 # the same with @Ack2; without @Ack2 nothing, because the message is finished
4 = "SS_ACK2"                # nothing, because the message is finished

[tb_0030]                    # pending-ack queue: what this institution has received
table = "tb_0030"

[tb_0030.columns]
object_id = "object_id"      # *
platform_status = "p_ack_status"
sender_status = "s_ack_status"
lk0_node = "lk0_node_id"     # * identity of the message at its sender
lk0_semq_id = "lk0_semq_id"
lk0_semq_db_id = "lk0_semq_db_id"
lk0_object_id = "lk0_object_id"  # *

[tb_0030.status]             # value of both statuses = status   # what the import does with the message
0 = "AS_INIT"                # notes it: the import at the sender asks whether the message has arrived
1 = "AS_ACK"                 # nothing if both statuses are AS_ACK: the message is finished

[tb_0032]                    # to-do rows: those between users of the institution become documents
table = "tb_0032"

[tb_0032.columns]
object_id = "object_id"      # *
status = "status"
sender = "from_user"         # user who sends
target_user = "to_user"      # user who receives; rows without both are no messages and are listed
payload = "app_data"         # *
domain = "app_domain"
type = "app_type"
subtype = "app_subtype"
key = "app_key"

[tb_0032.status]             # value of the column = status   # what the import does with the row
0 = "OPEN"                   # sends it
1 = "DONE"                   # nothing, because the row is finished
"""
REQUIRED = {
    OUTBOUND: ("object_id", "status", "target", "payload"),
    PENDING: ("object_id", "lk0_node", "lk0_object_id"),
    TO_DO: ("object_id", "payload"),
}
STATUSES = {
    OUTBOUND: {"SS_INIT", "SS_SENT", "SS_ACK_FWD", "SS_ACK", "SS_ACK2"},
    PENDING: {"AS_INIT", "AS_ACK"},
    TO_DO: {"OPEN", "DONE"},
}


class OldTable(Struct, frozen=True):
    """The mapping of one older table."""

    kind: str  #: tb_0031, tb_0030 or tb_0032
    name: str  #: name in the older database, with a schema if it contains a dot
    columns: Mapping[str, str]  #: names of columns, keyed by meaning
    status: Mapping[str, str]  #: statuses, keyed by the value of the column


class OldTables(Struct, frozen=True):
    """The mapping of all older tables, in the order of the import."""

    tables: tuple[OldTable, ...]
    encoding: str  #: encoding of payloads that are texts: one of ENCODINGS


def read_mapping(file: Path | None) -> OldTables:
    """Return the default mapping, changed by a mapping file if one is given. Raises BadMapping."""
    default = tomllib.loads(DEFAULT)
    changes = _loaded(file) if file is not None else {}
    if unknown := changes.keys() - default.keys():
        raise BadMapping(f"There are no such keys: {', '.join(sorted(unknown))}.", file=str(file))
    encoding = changes.get("encoding", default["encoding"])
    if encoding not in ENCODINGS:
        raise BadMapping(f"encoding must be one of {', '.join(ENCODINGS)}.", file=str(file))
    # Received messages are noted first, so that the node can answer inquiries about them.
    kinds = (PENDING, OUTBOUND, TO_DO)
    return OldTables(tuple(_table(kind, default[kind], changes.get(kind, {}), file) for kind in kinds), encoding)


def _loaded(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadMapping(f"{file}: {error}") from error


def _table(kind: str, default: dict[str, Any], changes: object, file: Path | None) -> OldTable:
    if not isinstance(changes, dict) or changes.keys() - default.keys():
        raise BadMapping(f"[{kind}] may have only table, columns and status.", file=str(file))
    name = changes.get("table", default["table"])
    columns, status = changes.get("columns", {}), changes.get("status", {})
    value_tables = (columns, status)
    if not isinstance(name, str) or not all(isinstance(values, dict) for values in value_tables):
        raise BadMapping(f"[{kind}]: table must be a text, columns and status must be tables of texts.", file=str(file))
    if unknown := columns.keys() - default["columns"].keys():
        raise BadMapping(f"[{kind}.columns]: there is no meaning {', '.join(sorted(unknown))}.", file=str(file))
    if not all(isinstance(value, str) for values in value_tables for value in values.values()):
        raise BadMapping(f"[{kind}]: names of columns and statuses must be texts.", file=str(file))
    if unknown := set(status.values()) - STATUSES[kind]:
        raise BadMapping(f"[{kind}.status]: there is no status {', '.join(sorted(unknown))}.", file=str(file))
    own_names = {name: name for name in STATUSES[kind]}
    return OldTable(kind, name, default["columns"] | columns, default["status"] | status | own_names)
