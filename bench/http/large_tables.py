"""Large tables made by SQL: a node's database with many waiting messages and many ledger lines.

The messages are documents to offline partners, with rows in tb_0031 only: no bodies, no streams. The ledger has the
same four lines for each message from the first one on; further lines are about messages without a row.
"""

from datetime import UTC, datetime, timedelta

import psycopg

from semq.store.postgres.ledger_partitions import partition_of
from semq.store.rows import Event, Side
from semq.umx_t.status import Direction, SaveFwd, SendStatus

FIRST_ID = 1 << 40  # the record ids of the first opening of a store are above this number
PARTNERS = 20
DAYS = 5
LINES_PER_DOCUMENT = 4

WAITING = """
INSERT INTO tb_0031 (object_id, direction, lk0, inc, sid, dest, save_fwd, ack2, ss_status, app_domain, app_type,
    app_subtype, app_key, digest, size, accepted_at)
SELECT {first_id} + n, {own}, '1.10008.1.1.00000000000000aa.' || ({first_id} + n), 1,
    n / {partners}, '1.' || (50001 + n % {partners}),
    {must}, true, CASE WHEN n % 3 = 0 THEN {sent} ELSE {init} END, 'trade', (ARRAY['order','invoice'])[1 + n % 2], '',
    'K' || lpad(n::text, 9, '0'), decode(md5(n::text) || md5(n::text), 'hex'), 400 + n % 4000,
    now() - make_interval(secs => ({rows} - n) * 0.3)
FROM generate_series(1, {rows}) AS n
"""
LEDGER = """
INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type, app_subtype, app_key,
    digest, size, detail)
SELECT n, now() - make_interval(secs => ({lines} - n) * {pace}), {sender},
    (ARRAY[{accepted}, {sent}, {stored}, {delivered}])[1 + n % 4],
    '1.10008.1.1.00000000000000aa.' || ({first_id} + n / 4),
    '1.' || (50001 + n / 4 % {partners}), 1, '', 'trade', 'order', '', 'K' || lpad((n / 4)::text, 9, '0'), '', 1000, ''
FROM generate_series(1, {lines}) AS n
"""


def fill(url: str, waiting: int, lines: int, days: int = DAYS) -> None:
    """Add waiting messages and ledger lines of the last days to the migrated, otherwise empty database of a node."""
    pace = days * 80_000 / max(lines, 1)  # seconds between two lines
    with psycopg.connect(url) as connection:
        for day in range(days + 1):
            date = (datetime.now(UTC) - timedelta(days=day)).date()
            after = date + timedelta(days=1)
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {partition_of(date)} PARTITION OF semq_ledger"
                f" FOR VALUES FROM ('{date}') TO ('{after}')"
            )
        own, must = int(Direction.OWN), int(SaveFwd.MUST)
        init, sent = int(SendStatus.SS_INIT), int(SendStatus.SS_SENT)
        values = {"first_id": FIRST_ID, "own": own, "must": must, "init": init, "sent": sent, "partners": PARTNERS}
        connection.execute(WAITING.format(rows=waiting, **values))
        events = {event.name.lower(): int(event) for event in Event}
        sender = int(Side.SENDER)
        connection.execute(
            LEDGER.format(first_id=FIRST_ID, lines=lines, pace=pace, sender=sender, partners=PARTNERS, **events)
        )
        connection.execute("UPDATE semq_meta SET boot = GREATEST(boot, 2)")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE) tb_0031")
        connection.execute("VACUUM (ANALYZE) semq_ledger")
