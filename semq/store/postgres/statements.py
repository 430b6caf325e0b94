"""The SQL statements of the writer by name: those that load a unit, those that write it, and the broker's. Postgres 15
supports the syntax.
"""

from sqlalchemy import Table

from semq.store import figure_tables as figure_tables  # these imports add the tables to the schema
from semq.store import proof_tables as proof_tables
from semq.store import submission_tables as submission_tables
from semq.store import tables
from semq.store import web_tables as web_tables
from semq.store.broker.statements import BROKER
from semq.store.control import cluster_tables as cluster_tables
from semq.store.postgres.conversion.rows import CHANGES
from semq.store.postgres.lease import OWNED
from semq.store.rows import CORRECTABLE
from semq.umx_t.status import AckStatus, AppStatus, Direction, Outcome, SaveFwd, SendStatus

INIT, RELAYED, OWN = int(SendStatus.SS_INIT), int(Direction.RELAYED), int(Direction.OWN)
NEW, OWED, NOTED = int(AppStatus.NEW), int(AckStatus.AS_INIT), int(AckStatus.AS_ACK)
STALE, FENCED = "SQ001", "SQ002"  # SQLSTATEs raised by semq_expect

# Tables whose new rows are written by COPY or INSERT.
INSERTED: tuple[Table, ...] = (
    tables.tb_0031,
    tables.tb_0031_body,
    tables.tb_0030,
    tables.tb_0030_body,
    tables.tb_0030_ledger,
    tables.semq_ledger,
    tables.broker_message,
    tables.broker_body,
)

# Of tb_0031_submit. With IS NOT NULL, Postgres 15 reads the whole index of refused rows until it has statistics.
REFUSED = "coalesce(reason_code, '') <> ''"
LINES_TOGETHER = 4  # most lines of the ledger in one INSERT


def names(table: Table) -> str:
    """Return the columns of a table as a list for SQL."""
    return ", ".join(f'"{column.name}"' for column in table.columns)


def _insert(table: Table, rest: str = "", rows: int = 1) -> str:
    width = len(table.columns)
    places = (", ".join(f"${row * width + column}" for column in range(1, width + 1)) for row in range(rows))
    values = ", ".join(f"({row})" for row in places)
    return f"INSERT INTO {table.name} ({names(table)}) VALUES {values}{rest}"


def copy_in(table: str) -> str:
    """Return the statement for a binary COPY into a table."""
    return f"COPY {table} ({names(tables.metadata.tables[table])}) FROM STDIN (FORMAT binary)"


OUT = names(tables.tb_0031)
PEND = names(tables.tb_0030)

# No plan may depend on the size that Postgres assumes for a table, because queues grow from nothing to millions of
# rows. So rows are found by ``= ANY`` on one key; where two sets are joined, LATERAL with OFFSET 0 fixes the order.
LOAD: dict[str, str] = {
    "outbound": f"SELECT {OUT} FROM tb_0031 WHERE object_id = ANY($1::bigint[])",
    "relayed": f"SELECT {OUT} FROM tb_0031 WHERE direction = {RELAYED} AND lk0 = ANY($1::text[])",
    "tokens": "SELECT token, lk0, digest FROM tb_0031_token WHERE token = ANY($1::text[])",
    "out_streams": """
        SELECT s.dest, s.inc, s.next_sid
        FROM unnest($1::text[], $2::bigint[]) AS k (dest, inc)
        CROSS JOIN LATERAL (SELECT * FROM tb_0031_stream t WHERE t.dest = k.dest AND t.inc = k.inc OFFSET 0) s""",
    "last_pos": """
        SELECT o.dest, o.order_key, o.inc, o.sid
        FROM unnest($1::text[], $2::text[]) AS k (dest, order_key)
        CROSS JOIN LATERAL (
            SELECT * FROM tb_0031_order t WHERE t.dest = k.dest AND t.order_key = k.order_key OFFSET 0
        ) o""",
    # The place of the key in the parameters is returned: reading and hashing the key would cost more.
    "in_streams": """
        SELECT k.place, s.number, s.floor, s.closed,
            (SELECT max(l.sid) FROM tb_0030_ledger l WHERE l.stream = s.number)
        FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS k (store, inc, place)
        CROSS JOIN LATERAL (SELECT * FROM tb_0030_stream t WHERE t.store = k.store AND t.inc = k.inc OFFSET 0) s""",
    "recorded": """
        SELECT sid, status, digest, reason_code, reason_text, proved FROM tb_0030_ledger
        WHERE stream = (SELECT number FROM tb_0030_stream WHERE store = $1::text AND inc = $2::bigint)
            AND sid = ANY($3::bigint[])""",
    "seen": """
        SELECT ident, status, reason_code, reason_text FROM tb_0030_seen WHERE ident = ANY($1::text[])""",
    "pending": f"SELECT {PEND} FROM tb_0030 WHERE bref = ANY($1::bigint[])",
    "bodies": "SELECT object_id, envelope, payload FROM tb_0031_body WHERE object_id = ANY($1::bigint[])",
}


def _with_bodies(table: str, key: str, rows: str) -> str:
    """Return a query for rows with bodies. The last row is the one at which the payloads reach $4 bytes."""
    columns = names(tables.metadata.tables[table])
    return f"""
        SELECT {columns}, envelope, payload
        FROM (
            SELECT r.*, b.envelope, b.payload,
                sum(r.size) OVER (ORDER BY r.{key}) - r.size AS bytes_before
            FROM ({rows}) r
            LEFT JOIN LATERAL (SELECT * FROM {table}_body b WHERE b.{key} = r.{key} OFFSET 0) b ON true
        ) AS read
        WHERE bytes_before < $4::bigint
        ORDER BY {key}"""


# Source and priority are in ranges: with equalities the planner could read all rows in the order of the primary key.
LAST = 2**63 - 1
QUERY: dict[str, str] = {
    "Unsent": _with_bodies(
        "tb_0031",
        "object_id",
        f"""SELECT * FROM tb_0031
            WHERE dest = $1::text AND object_id > $2::bigint AND ss_status = {INIT} AND NOT held AND outcome IS NULL
                AND source = '' AND priority = 0
            ORDER BY object_id LIMIT $3::bigint""",
    ),
    "UnsentTrack": _with_bodies(
        "tb_0031",
        "object_id",
        f"""SELECT * FROM tb_0031
            WHERE dest = $1::text AND (source <> '' OR priority > 0)
                AND (source, priority, object_id) > ($5::text, $6::smallint, $2::bigint)
                AND (source, priority, object_id) < ($5::text, $6::smallint, {LAST})
                AND ss_status = {INIT} AND NOT held AND outcome IS NULL
            ORDER BY source, priority, object_id LIMIT $3::bigint""",
    ),
    "Waiting": _with_bodies(
        "tb_0030",
        "bref",
        f"""SELECT * FROM tb_0030
            WHERE target_user = $1::text AND app_status = {NEW}
                AND (source, priority, bref) > ($5::text, $6::smallint, $2::bigint)
                AND (source, priority, bref) < ($5::text, $6::smallint, {LAST})
            ORDER BY source, priority, bref LIMIT $3::bigint""",
    ),
    # Steps by the index from one pair of source and priority to the next; the cost depends on the number of pairs only.
    "InboxTracks": """
        WITH RECURSIVE track AS (
            (SELECT source, priority FROM tb_0030 WHERE target_user = $1::text ORDER BY source, priority LIMIT 1)
            UNION ALL
            SELECT next.source, next.priority FROM track CROSS JOIN LATERAL (
                SELECT source, priority FROM tb_0030
                WHERE target_user = $1::text AND (source, priority) > (track.source, track.priority)
                ORDER BY source, priority LIMIT 1
            ) next
        )
        SELECT source, priority FROM track""",
    "Unsettled": f"""
        SELECT {OUT} FROM tb_0031
        WHERE object_id BETWEEN $1::bigint AND $2::bigint AND outcome IS NULL AND ss_status > {INIT}
        ORDER BY object_id LIMIT $3::bigint""",
    "Unfinished": f"""
        SELECT {PEND} FROM tb_0030
        WHERE bref BETWEEN $1::bigint AND $2::bigint AND (
            app_status = {NEW} OR (lk1 IS NOT NULL AND p_ack_status = {OWED})
            OR (save_fwd = {int(SaveFwd.MUST)} AND s_ack_status = {OWED})
        )
        ORDER BY bref LIMIT $3::bigint""",
    "FirstInOrder": f"""
        SELECT {PEND} FROM tb_0030
        WHERE store = $1::text AND order_key = $2::text AND order_key <> '' AND app_status = {NEW}
        ORDER BY src_object_id LIMIT 1""",
    "StreamsTo": "SELECT dest, inc, next_sid FROM tb_0031_stream WHERE dest = $1::text",
    "ExpiredRows": f"""
        SELECT {OUT} FROM tb_0031
        WHERE expires_at IS NOT NULL AND expires_at <= $1::timestamptz AND outcome IS NULL AND NOT void
            AND direction = {OWN} AND (save_fwd = {int(SaveFwd.MUST)} OR ss_status = {int(SendStatus.SS_INIT)})
        ORDER BY expires_at LIMIT $2::bigint""",
    # Headers are text: their values may be such that decoding them fails.
    "SubmittedRows": """
        SELECT number, target, CASE WHEN readable THEN payload ELSE '' END, app_key, save_fwd, ack2,
            order_key, coalesce(token, ''), content_type,
            CASE WHEN headers_size <= $4::bigint THEN headers::text END, content_encoding, priority, size,
            coalesce(lk0, ''), wait_code, wait_text, coalesce(envelope, '')
        FROM (
            SELECT s.*, coalesce(
                sum(CASE WHEN readable THEN size ELSE 0 END + CASE WHEN headers_size <= $4::bigint THEN headers_size
                    ELSE 0 END + octet_length(coalesce(envelope, '')))
                    OVER (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0
            ) AS bytes_before
            FROM (
                SELECT *, octet_length(payload)::bigint AS size, octet_length(headers::text) AS headers_size,
                    octet_length(payload) <= $3::bigint OR envelope IS NOT NULL AS readable
                FROM tb_0031_submit
                WHERE reason_code IS NULL AND not_before IS NULL AND target <> ALL ($2::text[])
                ORDER BY number LIMIT $1::bigint
            ) s
        ) AS read
        WHERE bytes_before < 16777216
        ORDER BY number""",
    "RefusedSubmissions": """
        SELECT number, target, ''::bytea, app_key, save_fwd, ack2, order_key, coalesce(token, ''), content_type,
            NULL, content_encoding, priority, octet_length(payload)::bigint, lk0
        FROM tb_0031_submit WHERE reason_code IS NOT NULL AND lk0 = ANY($1::text[])""",
    "OpenSubmission": """
        SELECT number, target, ''::bytea, app_key, save_fwd, ack2, order_key, coalesce(token, ''), content_type,
            NULL, content_encoding, priority, octet_length(payload)::bigint, coalesce(lk0, ''), wait_code,
            wait_text, coalesce(envelope, ''), coalesce(extract(epoch FROM not_before) * 1000, 0)::bigint
        FROM tb_0031_submit WHERE reason_code IS NULL AND number = $1::bigint""",
    "TokenSubmissions": """
        SELECT number, target, ''::bytea, app_key, save_fwd, ack2, order_key, token, content_type,
            NULL, content_encoding, priority, octet_length(payload)::bigint, lk0, wait_code,
            wait_text, envelope, coalesce(extract(epoch FROM not_before) * 1000, 0)::bigint
        FROM tb_0031_submit
        WHERE token IS NOT NULL AND token = ANY($1::text[]) AND reason_code IS NULL AND envelope IS NOT NULL""",
    # Both parts use the index.
    "DueSubmissions": """
        (
            SELECT number, (extract(epoch FROM not_before) * 1000)::bigint FROM tb_0031_submit
            WHERE not_before IS NOT NULL AND not_before <= $1::timestamptz
            ORDER BY not_before, number LIMIT $2::bigint
        ) UNION ALL (
            SELECT number, ceil(extract(epoch FROM not_before) * 1000)::bigint FROM tb_0031_submit
            WHERE not_before IS NOT NULL AND not_before > $1::timestamptz
            ORDER BY not_before, number LIMIT 1
        )""",
    "RefusedBy": f"""
        SELECT {OUT} FROM tb_0031
        WHERE dest = $1::text AND outcome = {int(Outcome.REJECTED)} AND reason_code = $2::text AND has_payload
            AND direction = {OWN} AND object_id > $3::bigint
        ORDER BY object_id LIMIT $4::bigint""",
    "KeptKeys": """
        SELECT id, peer, key_id, alg, kept FROM semq_session_key
        WHERE peer = $1::text ORDER BY made_at DESC LIMIT $2::bigint""",
    "DoneRows": "SELECT bref, parked FROM tb_0030_done ORDER BY bref LIMIT $1::bigint",
}


def _expect(change: str, expected: str, otherwise: str = STALE, also: str = "") -> str:
    """Return the statement for a change that must affect ``expected`` rows (SQL). For another number the transaction
    fails with the SQLSTATE ``otherwise``. ``also``: another change."""
    also = f", also AS ({also})" if also else ""
    return f"WITH met AS ({change} RETURNING 1){also} {_check('met', expected, repr(otherwise))}"


def _check(rows: str, expected: str, otherwise: str) -> str:
    """Return the query that fails if the number of ``rows`` is not ``expected``."""
    # The function is called only for a wrong number: a call of PL/pgSQL costs as much as a small statement.
    return f"SELECT semq_expect(count(*), {expected}, {otherwise}) FROM {rows} HAVING count(*) <> {expected}"


CHANGES_FROM = 4  # first parameter of changed columns, after object ids, custodians and earlier status
OUTCOME_AT = CHANGES_FROM + CHANGES.index(("outcome", "smallint"))


def _may_end(parameter: int) -> str:
    """Return the condition under which the outcome with this parameter number may be set (PROTOCOL.md S5c)."""
    corrected = ", ".join(f"{outcome:d}" for outcome in sorted(CORRECTABLE))
    return (
        f"(outcome IS NULL OR outcome = ${parameter}::smallint"
        f" OR (${parameter}::smallint = {Outcome.DELIVERED:d} AND outcome IN ({corrected})))"
    )


WRITE: dict[str, str] = {
    "begin": "BEGIN ISOLATION LEVEL READ COMMITTED",
    "rollback": "ROLLBACK",
    "lease": _check(f"({OWNED.format('$1')}) l", "1", repr(FENCED)),
    "renew": _expect(
        "UPDATE store_lease SET until = clock_timestamp() + $2::bigint * interval '1 ms' WHERE epoch = $1", "1", FENCED
    ),
    # No join with unnest: it could read the whole table if Postgres assumes that the table is empty.
    "change_outbound": _expect(
        f"""UPDATE tb_0031
            SET custodian = ($2::text[])[array_position($1::bigint[], object_id)],
                {", ".join(f"{name} = ${i}::{type_}" for i, (name, type_) in enumerate(CHANGES, CHANGES_FROM))}
            WHERE object_id = ANY($1::bigint[]) AND ss_status = $3::smallint AND {_may_end(OUTCOME_AT)}""",
        "cardinality($1::bigint[])",
    ),
    # The unit that deletes a row may also set the outcome.
    "delete_outbound": _expect(
        f"DELETE FROM tb_0031 WHERE object_id = ANY($1::bigint[]) AND ss_status = $2::smallint AND {_may_end(3)}",
        "cardinality($1::bigint[])",
        also="DELETE FROM tb_0031_body WHERE object_id = ANY($1::bigint[])",
    ),
    "change_size": "UPDATE tb_0031 SET size = $2::bigint WHERE object_id = $1::bigint",
    "replace_body": _insert(
        tables.tb_0031_body,
        " ON CONFLICT (object_id) DO UPDATE SET envelope = excluded.envelope, payload = excluded.payload",
    ),
    "replace_envelope": "UPDATE tb_0031_body SET envelope = $2 WHERE object_id = $1::bigint",
    "drop_payload": "UPDATE tb_0031_body SET payload = '' WHERE object_id = ANY($1::bigint[])",
    "new_token": "INSERT INTO tb_0031_token (token, lk0, digest) VALUES ($1, $2, $3)",
    "keep_token": "INSERT INTO tb_0031_token (token, lk0, digest) VALUES ($1, $2, $3) ON CONFLICT (token) DO NOTHING",
    # Fails if next_sid would decrease: positions would be assigned twice.
    "save_out_streams": _expect(
        """INSERT INTO tb_0031_stream AS s (dest, inc, next_sid)
            SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[])
            ON CONFLICT (dest, inc) DO UPDATE SET next_sid = excluded.next_sid WHERE s.next_sid <= excluded.next_sid""",
        "cardinality($1::text[])",
    ),
    "save_last_pos": """
        INSERT INTO tb_0031_order (dest, order_key, inc, sid)
        SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[])
        ON CONFLICT (dest, order_key) DO UPDATE SET inc = excluded.inc, sid = excluded.sid""",
    # Runs before the floor is raised, to read only the range between old and new floor.
    "forget": """
        DELETE FROM tb_0030_ledger
        WHERE stream = $1::bigint AND sid >= (SELECT floor FROM tb_0030_stream WHERE number = $1::bigint)
            AND sid < $2::bigint""",
    "in_stream": """
        INSERT INTO tb_0030_stream AS s (number, store, inc, floor, closed) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (store, inc) DO UPDATE
        SET floor = greatest(s.floor, excluded.floor), closed = coalesce(excluded.closed, s.closed),
            moved_at = now()""",
    # A proved document replaces an unproved one, which may be a forgery.
    "delete_unproved": "DELETE FROM tb_0030_ledger WHERE stream = $1::bigint AND sid = $2::bigint AND NOT proved",
    "new_seen": """
        INSERT INTO tb_0030_seen (ident, store, status, reason_code, reason_text)
        SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[])""",
    "platform_acked": f"""
        UPDATE tb_0030 SET p_ack_status = {NOTED} WHERE bref = ANY($1::bigint[]) AND p_ack_status = {OWED}""",
    "sender_acked": f"""
        UPDATE tb_0030 SET s_ack_status = {NOTED} WHERE bref = ANY($1::bigint[]) AND s_ack_status = {OWED}""",
    "given": "UPDATE tb_0030 SET deliveries = deliveries + 1 WHERE bref = ANY($1::bigint[])",
    "taken_back": "UPDATE tb_0030 SET deliveries = deliveries - 1 WHERE bref = ANY($1::bigint[])",
    "handled": "UPDATE tb_0030 SET app_status = $2::smallint WHERE bref = ANY($1::bigint[])",
    "delete_pending": _expect(
        "DELETE FROM tb_0030 WHERE bref = ANY($1::bigint[])",
        "cardinality($1::bigint[])",
        also="DELETE FROM tb_0030_body WHERE bref = ANY($1::bigint[])",
    ),
    "new_submission": """
        INSERT INTO tb_0031_submit (
            number, target, payload, app_key, save_fwd, ack2, order_key, token, content_type, content_encoding,
            priority, lk0, envelope, not_before, headers
        ) OVERRIDING SYSTEM VALUE VALUES (
            $1::bigint, $2::text, $3::bytea, $4::text, $5::smallint, $6::smallint, $7::text, nullif($8::text, ''),
            $9::text, $10::text, $11::smallint, $12::text, $13::bytea, $14::timestamptz, $15::text::jsonb
        )""",
    "due_submissions": "UPDATE tb_0031_submit SET not_before = NULL WHERE number = ANY($1::bigint[])",
    # For a scheduled document that became a message, or was refused, under another LK0.
    "renamed_scheduled": """
        INSERT INTO tb_0031_renamed (lk0, number)
        SELECT lk0, number FROM tb_0031_submit
        WHERE number = ANY($1::bigint[]) AND envelope IS NOT NULL AND reason_code IS NULL AND lk0 <> ALL($2::text[])
        ON CONFLICT (lk0) DO NOTHING""",
    "taken_submissions": "DELETE FROM tb_0031_submit WHERE number = ANY($1::bigint[])",
    "submission_became": """
        INSERT INTO tb_0031_taken (number, lk0) SELECT * FROM unnest($1::bigint[], $2::text[])
        ON CONFLICT (number) DO NOTHING""",
    "refused_submission": """
        UPDATE tb_0031_submit
        SET reason_code = $2::text, reason_text = $3::text, lk0 = $4::text, refused_at = $5::timestamptz,
            wait_code = NULL, wait_text = NULL, waits_since = NULL
        WHERE number = $1::bigint""",
    "renamed_submissions": f"""
        INSERT INTO tb_0031_renamed (lk0, number)
        SELECT lk0, number FROM tb_0031_submit WHERE number = ANY($1::bigint[]) AND {REFUSED}
        ON CONFLICT (lk0) DO NOTHING""",
    "requeued_submissions": f"""
        UPDATE tb_0031_submit SET reason_code = NULL, reason_text = NULL, refused_at = NULL
        WHERE number = ANY($1::bigint[]) AND {REFUSED}""",
    "removal_became": f"""
        INSERT INTO tb_0031_taken (number, lk0)
        SELECT number, lk0 FROM tb_0031_submit WHERE number = ANY($1::bigint[]) AND {REFUSED}
        ON CONFLICT (number) DO NOTHING""",
    "removed_submissions": f"DELETE FROM tb_0031_submit WHERE number = ANY($1::bigint[]) AND {REFUSED}",
    "submissions_wait_no_more": "DELETE FROM tb_0031_wait WHERE target > '' AND target <> ALL($1::text[])",
    "submissions_wait": """
        INSERT INTO tb_0031_wait AS w (target, number, reason_code, reason_text)
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[])
        ON CONFLICT (target) DO UPDATE
        SET number = excluded.number, reason_code = excluded.reason_code, reason_text = excluded.reason_text""",
    "submission_waits": """
        UPDATE tb_0031_submit SET wait_code = $2::text, wait_text = $3::text, waits_since = coalesce(waits_since, now())
        WHERE number = $1::bigint AND reason_code IS NULL""",
    # For bodies stored ahead (``store.bodies_ahead``).
    "take tb_0031_body": _expect(
        "UPDATE tb_0031_body SET object_id = $2::bigint, envelope = $3::bytea WHERE object_id = $1::bigint", "1"
    ),
    "take tb_0030_body": _expect(
        "UPDATE tb_0030_body SET bref = $2::bigint, envelope = $3::bytea WHERE bref = $1::bigint", "1"
    ),
    "taken_done": "DELETE FROM tb_0030_done WHERE bref = ANY($1::bigint[])",
    # Checks the lease, as ``lease`` does, before it adds a link or extends an existing one.
    "chain": f"""
        WITH lease AS MATERIALIZED ({OWNED.format("$8")}),
        met AS (
            INSERT INTO semq_chain AS c (day, place, first, last, count, before, hash)
            SELECT date '2000-01-01' + $1::int, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bytea, $7::bytea
            WHERE EXISTS (SELECT FROM lease)
            ON CONFLICT (day, place) DO UPDATE SET last = excluded.last, count = excluded.count, hash = excluded.hash
            WHERE c.first = excluded.first AND c.before = excluded.before AND c.count < excluded.count
            RETURNING 1
        )
        {_check("met", "1", f"CASE WHEN EXISTS (SELECT FROM lease) THEN '{STALE}' ELSE '{FENCED}' END")}""",
    "KeptKey": """
        INSERT INTO semq_session_key (id, peer, key_id, alg, kept) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (id) DO NOTHING""",
    "KeptReceipts": "INSERT INTO semq_receipts (number, source, signature, leaves) VALUES ($1, $2, $3, $4)",
    "Certificates": """
        INSERT INTO semq_certificate (node, pems) VALUES ($1::text, $2::text[])
        ON CONFLICT (node) DO UPDATE SET pems = excluded.pems, seen_at = now()""",
    "RetiredStore": """
        INSERT INTO semq_retired_store (semq_id, semq_db_id, retired_by, why) VALUES ($1::bigint, $2::bigint, $3, $4)
        ON CONFLICT (semq_id, semq_db_id) DO NOTHING""",
    "NewPiece": "INSERT INTO tb_0031_piece (document, number, payload) VALUES ($1::bigint, $2::integer, $3::bytea)",
    "NoticeDue": "INSERT INTO tb_0031_piece (document, number, payload) VALUES ($1::bigint, $2::integer, $3::bytea)"
    " ON CONFLICT (document, number) DO NOTHING",
    "PieceGone": "DELETE FROM tb_0031_piece WHERE document = $1::bigint AND number = $2::integer",
    "PiecesGone": "DELETE FROM tb_0031_piece WHERE document = $1::bigint AND number < $2::integer",
    **{f"insert {table.name}": _insert(table) for table in INSERTED},
    **{f"insert {rows} lines": _insert(tables.semq_ledger, rows=rows) for rows in range(2, LINES_TOGETHER + 1)},
}

STATEMENTS: dict[str, str] = {**LOAD, **QUERY, **WRITE, **BROKER}
