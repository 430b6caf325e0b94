"""Tables for submissions that wait: submissions through SQL (docs/applications/sql.md) and scheduled documents."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from semq.store.tables import col, metadata, moment, reason

LAST_OF_KEY = "regexp_replace(app_key, '^([^/]*/){3}', '')"  # the text after the third slash of an AppKey

tb_0031_submit = Table(
    "tb_0031_submit",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    col("target", Text),
    col("payload", LargeBinary),
    col("app_key", Text, "''"),
    col("save_fwd", Integer, "3"),
    col("ack2", Integer, "1"),
    col("order_key", Text, "''"),
    col("token", Text, null=True),
    col("content_type", Text, "''"),
    col("headers", JSONB, "'{}'"),
    moment("submitted_at", "now()"),
    *reason(),
    col("content_encoding", Text, "''"),
    col("priority", SmallInteger, "0"),
    col("lk0", Text, null=True),  # the LK0 of its refusal in the ledger, or of the scheduled submission
    moment("refused_at", null=True),
    col("wait_code", Text, null=True),  # why it waits; null also if it waits behind another submission
    col("wait_text", Text, null=True),
    moment("waits_since", null=True),
    moment("not_before", null=True),  # the node accepts it at this time; null when it is due or released
    col("envelope", LargeBinary, null=True),  # attributes, if the node has scheduled it
    CheckConstraint(
        "(wait_code IS NULL) = (wait_text IS NULL) AND (wait_code IS NULL) = (waits_since IS NULL)", name="whole_wait"
    ),
    Index("tb_0031_submit_open", "number", postgresql_where=text("reason_code IS NULL AND not_before IS NULL")),
    Index("tb_0031_submit_due", "not_before", "number", postgresql_where=text("not_before IS NOT NULL")),
    Index("tb_0031_submit_refused", "lk0", postgresql_where=text("reason_code IS NOT NULL")),
    Index("tb_0031_submit_token", "token", postgresql_where=text("token IS NOT NULL")),
    Index("tb_0031_submit_key", text(LAST_OF_KEY), postgresql_where=text("app_key <> ''")),
)
# Pieces that the receiver's node has not confirmed yet; ``document`` is the number of the submission that becomes the
# manifest. Number -1 is a notice (PROTOCOL.md section 24).
tb_0031_piece = Table(
    "tb_0031_piece",
    metadata,
    col("document", BigInteger, key=True),
    col("number", Integer, key=True),
    col("payload", LargeBinary),
)
# The message that each submission became; kept as long as tokens.
tb_0031_taken = Table(
    "tb_0031_taken",
    metadata,
    col("number", BigInteger, key=True),
    col("lk0", Text),
    moment("at", "now()"),
    Index("tb_0031_taken_at", "at"),
    Index("tb_0031_taken_lk0", "lk0"),
)
# Earlier LK0s of submissions: of a refusal before another try, or of their scheduling.
tb_0031_renamed = Table(
    "tb_0031_renamed",
    metadata,
    col("lk0", Text, key=True),
    col("number", BigInteger),
    moment("at", "now()"),
    Index("tb_0031_renamed_number", "number"),
    Index("tb_0031_renamed_at", "at"),
)
# Targets whose submissions are skipped, as written in the submissions. ``number`` is the first submission that waits
# (null in rows of an older version).
tb_0031_wait = Table(
    "tb_0031_wait",
    metadata,
    col("target", Text, key=True),
    col("reason_code", Text),
    col("reason_text", Text),
    moment("since", "now()"),
    col("number", BigInteger, null=True),
)
