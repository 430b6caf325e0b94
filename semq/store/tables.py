"""The first part of the schema: columns, constraints and storage settings of tables.

``proof_tables``, ``submission_tables``, ``web_tables`` and ``control.cluster_tables`` add the other tables.

Bodies are in separate tables, so that a change of status rewrites tens of bytes. No status of a message has an index,
so that every change of status is a heap-only update.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlalchemy.sql.elements import KeyedColumnElement
from sqlalchemy.types import TypeEngine

from semq.store.rows import Event, Side
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus

Columns = ReadOnlyColumnCollection[str, KeyedColumnElement[object]]  # of a table, or of a selection from one
TableRow = Row[*tuple[object, ...]]  # its values are attributes with the names of the columns
T = TypeVar("T")
ColumnType = TypeEngine[T] | type[TypeEngine[T]]

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_name)s_key",
        "ck": "%(constraint_name)s",
    }
)

# Tables whose rows live for seconds: room on each page for heap-only updates, and an early vacuum. With Postgres'
# defaults a queue with a large backlog would be vacuumed too late.
QUEUE = {
    "fillfactor": "50",
    "autovacuum_vacuum_scale_factor": "0.02",
    "autovacuum_vacuum_threshold": "2000",
    "autovacuum_vacuum_insert_scale_factor": "0.2",
    "autovacuum_analyze_scale_factor": "0.1",
    "autovacuum_analyze_threshold": "2000",
}
BODIES = {name: value for name, value in QUEUE.items() if name != "fillfactor"}
# Tables with few rows that are updated many times a second.
COUNTERS = {"fillfactor": "50", "autovacuum_vacuum_scale_factor": "0", "autovacuum_vacuum_threshold": "500"}
# Storage parameters, applied by the migrations.
STORAGE: dict[str, dict[str, str]] = {
    **dict.fromkeys(("tb_0031", "tb_0030"), QUEUE),
    **dict.fromkeys(("tb_0031_body", "tb_0030_body", "tb_0031_piece", "tb_0030_ledger"), BODIES),
    **dict.fromkeys(("broker_message", "broker_body"), BODIES),
    **dict.fromkeys(("tb_0031_stream", "tb_0031_order", "tb_0030_stream", "store_lease", "semq_chain"), COUNTERS),
    "broker_handed_out": COUNTERS,
}
# Columns that Postgres does not compress: bodies are compressed, encrypted or small.
EXTERNAL = (
    ("tb_0031_body", "envelope"),
    ("tb_0031_body", "payload"),
    ("tb_0030_body", "envelope"),
    ("tb_0030_body", "payload"),
    ("tb_0031_piece", "payload"),
    ("broker_message", "body"),
    ("broker_body", "data"),
)


def one_of(column: str, values: Iterable[int], *, nullable: bool = False) -> CheckConstraint:
    """Return a constraint that allows only these numbers."""
    among = f"{column} IN ({', '.join(str(int(value)) for value in values)})"
    return CheckConstraint(f"{column} IS NULL OR {among}" if nullable else among, name=f"known_{column}")


def col(
    name: str, type_: "ColumnType[T]", default: str | None = None, *, null: bool = False, key: bool = False
) -> Column[T]:
    """Return a column. ``default`` is SQL; ``key`` makes the column a part of the primary key."""
    initial = None if default is None else text(default)
    return Column(name, type_, nullable=null, primary_key=key, server_default=initial, autoincrement=False)


def moment(name: str, default: str | None = None, *, null: bool = False) -> Column[datetime]:
    """Return a column for a point in time."""
    return col(name, DateTime(timezone=True), default, null=null)


def app_key() -> tuple[Column[str], ...]:
    """Return columns for the four parts of an AppKey."""
    return tuple(col(name, Text, "''") for name in ("app_domain", "app_type", "app_subtype", "app_key"))


def pos(prefix: str) -> tuple[Column[int], Column[int], CheckConstraint]:
    """Return the columns of a position in a stream, and a constraint: both are set or neither is."""
    inc, sid = f"{prefix}_inc", f"{prefix}_sid"
    whole = CheckConstraint(f"({inc} IS NULL) = ({sid} IS NULL)", name=f"whole_{prefix}")
    return col(inc, BigInteger, null=True), col(sid, BigInteger, null=True), whole


def reason() -> tuple[Column[str], Column[str], CheckConstraint]:
    """Return the columns of a reason, and a constraint: both are set or neither is."""
    whole = CheckConstraint("(reason_code IS NULL) = (reason_text IS NULL)", name="whole_reason")
    return col("reason_code", Text, null=True), col("reason_text", Text, null=True), whole


# ---------------------------------------------------------------------------------------------- the store and its owner

semq_meta = Table(
    "semq_meta",
    metadata,
    col("single", Boolean, "true", key=True),
    col("store_uuid", Uuid),
    col("boot", BigInteger, "0"),
    col("next_queue_id", BigInteger, "1"),
    col("broker_ended", Boolean, "false"),  # the last process of the broker was stopped, not killed
    col("vault", LargeBinary, null=True),  # a text encrypted with the master key (``locked_bodies``)
    CheckConstraint("single", name="one_row"),
)
semq_incarnation = Table(
    "semq_incarnation",
    metadata,
    col("inc", BigInteger, key=True),
    col("boot", BigInteger),
    moment("started_at", "now()"),
)
store_lease = Table(
    "store_lease",
    metadata,
    col("single", Boolean, "true", key=True),
    col("owner", Text),
    col("epoch", BigInteger),
    moment("until"),
    CheckConstraint("single", name="one_row"),
)

# ---------------------------------------------------------------------------- messages that this node sends, or holds

tb_0031 = Table(
    "tb_0031",
    metadata,
    col("object_id", BigInteger, key=True),
    col("direction", SmallInteger),
    col("lk0", Text),
    col("inc", BigInteger),
    col("sid", BigInteger, "-1"),
    col("dest", Text),
    col("dest_user", Text, "''"),
    col("save_fwd", SmallInteger),
    col("ack2", Boolean),
    col("ss_status", SmallInteger, str(int(SendStatus.SS_INIT))),
    col("att", Integer, "0"),
    *pos("prev"),
    col("order_key", Text, "''"),
    *app_key(),
    col("token", Text, null=True),
    col("custodian", Text, null=True),
    col("void", Boolean, "false"),
    col("lost", Boolean, "false"),
    col("has_payload", Boolean, "true"),
    col("held", Boolean, "false"),
    col("parked", Boolean, "false"),
    col("outcome", SmallInteger, null=True),
    *reason(),
    col("digest", LargeBinary, "''"),
    col("size", BigInteger, "0"),
    moment("accepted_at"),
    moment("expires_at", null=True),
    col("source", Text, "''"),
    col("priority", SmallInteger, "0"),
    col("group_place", Text, null=True),
    col("document", Text, null=True),  # for a manifest: name of the document in pieces
    one_of("direction", Direction),
    one_of("save_fwd", SaveFwd),
    one_of("ss_status", SendStatus),
    one_of("outcome", Outcome, nullable=True),
    CheckConstraint(
        f"(ss_status = {SendStatus.SS_ACK2:d}) = (outcome IS NOT NULL AND outcome = {Outcome.DELIVERED:d})",
        name="delivered_is_ss_ack2",
    ),
    CheckConstraint("lost <= void", name="lost_is_void"),
    CheckConstraint("sid >= -1 AND att >= 0", name="counts_up"),
    CheckConstraint(
        f"direction <> {Direction.OWN:d} OR (sid >= 0) = (save_fwd = {SaveFwd.MUST:d})", name="class_3_has_a_position"
    ),
    Index("tb_0031_dest", "dest", "object_id"),
    Index(
        "tb_0031_track",
        "dest",
        "source",
        "priority",
        "object_id",
        postgresql_where=text("source <> '' OR priority > 0"),
    ),
    Index(
        "tb_0031_position",
        "dest",
        "inc",
        "sid",
        unique=True,
        postgresql_where=text(f"sid >= 0 AND direction = {Direction.OWN:d}"),
    ),
    Index("tb_0031_relayed", "lk0", unique=True, postgresql_where=text(f"direction = {Direction.RELAYED:d}")),
    Index(
        "tb_0031_relayed_key",
        "app_key",
        postgresql_where=text(f"direction = {Direction.RELAYED:d} AND app_key <> ''"),
    ),
    Index("tb_0031_expiry", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
)
tb_0031_body = Table(
    "tb_0031_body",
    metadata,
    col("object_id", BigInteger, key=True),
    col("envelope", LargeBinary),
    col("payload", LargeBinary),
)
tb_0031_stream = Table(
    "tb_0031_stream",
    metadata,
    col("dest", Text, key=True),
    col("inc", BigInteger, key=True),
    col("next_sid", BigInteger),
    CheckConstraint("next_sid >= 0", name="counts_up"),
)
tb_0031_order = Table(
    "tb_0031_order",
    metadata,
    col("dest", Text, key=True),
    col("order_key", Text, key=True),
    col("inc", BigInteger),
    col("sid", BigInteger),
)
tb_0031_token = Table(
    "tb_0031_token",
    metadata,
    col("token", Text, key=True),
    col("lk0", Text),
    col("digest", LargeBinary),
    moment("at", "now()"),
    Index("tb_0031_token_at", "at"),
)

# ---------------------------------------------------------------------------------- messages that this node receives

tb_0030 = Table(
    "tb_0030",
    metadata,
    col("bref", BigInteger, key=True),
    col("lk0", Text),
    col("store", Text),
    col("inc", BigInteger),
    col("src_object_id", BigInteger),
    col("sid", BigInteger, "-1"),
    col("target", Text),
    col("target_user", Text, "''"),
    col("save_fwd", SmallInteger),
    col("ack2", Boolean),
    col("status", SmallInteger),
    col("lk1", Text, null=True),
    col("p_ack_status", SmallInteger, str(int(AckStatus.AS_INIT))),
    col("s_ack_status", SmallInteger, str(int(AckStatus.AS_INIT))),
    col("app_status", SmallInteger, str(int(AppStatus.NEW))),
    col("deliveries", Integer, "0"),
    *pos("prev"),
    col("order_key", Text, "''"),
    *app_key(),
    *reason(),
    col("digest", LargeBinary, "''"),
    col("size", BigInteger, "0"),
    moment("received_at"),
    col("proved", Boolean, "false"),
    col("source", Text, "''"),
    col("priority", SmallInteger, "0"),
    one_of("save_fwd", SaveFwd),
    one_of("status", (Arrival.RECV, Arrival.REJ, Arrival.VOID)),
    one_of("p_ack_status", AckStatus),
    one_of("s_ack_status", AckStatus),
    one_of("app_status", AppStatus),
    CheckConstraint("sid >= -1 AND deliveries >= 0", name="counts_up"),
    Index("tb_0030_track", "target_user", "source", "priority", "bref"),
    Index("tb_0030_source", "src_object_id"),
    Index("tb_0030_order", "store", "order_key", "src_object_id", postgresql_where=text("order_key <> ''")),
)
tb_0030_body = Table(
    "tb_0030_body",
    metadata,
    col("bref", BigInteger, key=True),
    col("envelope", LargeBinary),
    col("payload", LargeBinary),
)
tb_0030_stream = Table(
    "tb_0030_stream",
    metadata,
    col("number", BigInteger, key=True),
    col("store", Text),
    col("inc", BigInteger),
    col("floor", BigInteger, "0"),
    col("closed", BigInteger, null=True),
    moment("moved_at", "now()"),
    CheckConstraint("floor >= 0", name="counts_up"),
    UniqueConstraint("store", "inc"),
)
tb_0030_ledger = Table(
    "tb_0030_ledger",
    metadata,
    col("stream", BigInteger, key=True),
    col("sid", BigInteger, key=True),
    col("status", SmallInteger),
    col("digest", LargeBinary, "''"),
    *reason(),
    col("proved", Boolean, "false"),
    one_of("status", (Arrival.RECV, Arrival.REJ, Arrival.VOID)),
    CheckConstraint("sid >= 0", name="counts_up"),
)
tb_0030_seen = Table(
    "tb_0030_seen",
    metadata,
    col("ident", Text, key=True),
    col("store", Text),
    moment("at", "now()"),
    col("status", SmallInteger, str(int(Arrival.RECV))),
    *reason(),
    one_of("status", (Arrival.RECV, Arrival.REJ, Arrival.VOID)),
    Index("tb_0030_seen_window", "store", "at"),
)
tb_0030_done = Table(
    "tb_0030_done", metadata, col("bref", BigInteger, key=True), moment("at", "now()"), col("parked", Text, null=True)
)

# --------------------------------------------------------------------------------------------------------- the ledger

# Index for short names: the record id in LK0, from the first ledger lines of each message. At a hub these lines state
# that the hub forwarded, stored, dropped or refused the message.
RECORD_ID = "split_part(lk0, '.', 6)"
_AT_HUB = (Event.FORWARDED, Event.STORED, Event.DROPPED, Event.REFUSED)
FIRST_LINE = (
    f"event IN ({Event.ACCEPTED:d}, {Event.RECEIVED:d})"
    f" OR side = {Side.HUB:d} AND event IN ({', '.join(str(int(event)) for event in _AT_HUB)})"
)
REFUSAL = f"event = {Event.REFUSED:d} AND side = {Side.SENDER:d}"  # refusal of a submission by its node
semq_ledger = Table(
    "semq_ledger",
    metadata,
    col("number", BigInteger),
    moment("at"),
    col("side", SmallInteger),
    col("event", SmallInteger),
    col("lk0", Text),
    col("target", Text),
    col("att", Integer),
    col("lk1", Text),
    *app_key(),
    col("digest", LargeBinary),
    col("size", BigInteger),
    col("detail", Text),
    one_of("side", Side),
    one_of("event", Event),
    Index("semq_ledger_lk0", "lk0"),
    Index(
        "semq_ledger_app_key",
        "app_key",
        postgresql_where=text(f"app_key <> '' AND event IN ({Event.ACCEPTED:d}, {Event.RECEIVED:d})"),
    ),
    Index("semq_ledger_record", text(RECORD_ID), postgresql_where=text(FIRST_LINE)),
    Index("semq_ledger_refusal", text(RECORD_ID), postgresql_where=text(REFUSAL)),
    Index("semq_ledger_refused", "app_key", postgresql_where=text(f"app_key <> '' AND event = {Event.REFUSED:d}")),
    postgresql_partition_by="RANGE (at)",
)

# --------------------------------------------------------------------------------------- the durable part of the broker

broker_exchange = Table(
    "broker_exchange",
    metadata,
    col("vhost", Text, key=True),
    col("name", Text, key=True),
    col("type", Text),
    col("auto_delete", Boolean),
    col("internal", Boolean),
    col("arguments", LargeBinary),
)
broker_queue = Table(
    "broker_queue",
    metadata,
    col("queue_id", BigInteger, key=True),
    col("vhost", Text),
    col("name", Text),
    col("auto_delete", Boolean),
    col("arguments", LargeBinary),
    UniqueConstraint("vhost", "name"),
)
broker_binding = Table(
    "broker_binding",
    metadata,
    # SHA-256 of the following columns; arguments may be too long for an index
    col("identity", LargeBinary, key=True),
    col("vhost", Text),
    col("source", Text),
    col("destination", Text),
    col("to_exchange", Boolean),
    col("routing_key", Text),
    col("arguments", LargeBinary),
)
broker_message = Table(
    "broker_message",
    metadata,
    col("queue_id", BigInteger, key=True),
    col("position", BigInteger, key=True),
    col("exchange", Text),
    col("routing_key", Text),
    col("priority", SmallInteger),
    col("expires_at", Double, null=True),
    col("delivery_count", Integer),
    col("header", LargeBinary),
    col("body", LargeBinary),
    col("body_id", BigInteger, "0"),
)
broker_body = Table(
    "broker_body",
    metadata,
    col("body_id", BigInteger, key=True),
    col("index", Integer, key=True),
    col("data", LargeBinary),
)
broker_handed_out = Table(
    "broker_handed_out", metadata, col("queue_id", BigInteger, key=True), col("position", BigInteger)
)

# --------------------------------------------------------------- the nodes that the hub admits, and their agreements

node_certificate = Table(
    "node_certificate",
    metadata,
    col("serial", Text, key=True),  # hexadecimal
    col("node", Text),
    col("key_id", Text),
    col("der", LargeBinary),
    moment("issued_at"),
    moment("not_after"),
    moment("revoked_at", null=True),
    col("why", Text, "''"),
    Index("node_certificate_node", "node"),
)
node_token = Table(
    "node_token",
    metadata,
    col("hash", LargeBinary, key=True),  # SHA-256 of the token
    col("node", Text),
    col("host_names", JSONB),
    moment("made_at"),
    moment("expires_at"),
    moment("used_at", null=True),
    col("serial", Text, null=True),  # of the certificate issued for the token
    CheckConstraint("(used_at IS NULL) = (serial IS NULL)", name="used_for_one"),
)
node_life = Table(
    "node_life",
    metadata,
    col("node", Text, key=True),
    col("store_uuid", Text),
    col("boot", BigInteger),
    moment("seen_at"),
)
semq_retired_store = Table(
    "semq_retired_store",
    metadata,
    col("semq_id", Integer, key=True),
    col("semq_db_id", Integer, key=True),
    col("retired_by", Text),
    col("why", Text),
    moment("at", "now()"),
)
definition = Table(
    "definition",
    metadata,
    col("version", BigInteger, key=True),
    col("document", Text),  # as imported, including comments
    moment("at"),
    col("why", Text, "''"),
)
