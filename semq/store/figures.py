"""Figures over time, counted from the ledger: documents by period, institutions and event, with their latency.

One transaction counts the new lines and notes the last one, so a line is counted once, whenever the process ends. All
periods of a line are counted at once; nothing has to be summed up later, and ``postgres.housekeeping`` deletes short
periods first.
"""

from datetime import timedelta

from sqlalchemy import Connection, text

from semq.store.figure_tables import COUNTED, among
from semq.store.rows import MARKER, Event, Side
from semq.umx_t.pieces import PIECES_USER

MINUTE, HOUR, DAY = 1, 60, 1440  # minutes of the periods
UNITS = {MINUTE: "minute", HOUR: "hour", DAY: "day"}
PAIRS_BY = DAY  # the only period that is also counted for each pair of sender and receiver
KEPT_DAYS = {MINUTE: 2, HOUR: 100}  # those of days are kept as long as the ledger
LINES_MAX = 20_000  # lines of one transaction
# Upper bounds of latencies in milliseconds; one bucket more has what took longer, or began more than a day ago.
BOUNDS_MS = (
    10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000,
    86_400_000,
)  # fmt: skip
NO_LATENCY = -1
# Event | event at which its latency begins
SINCE = {Event.DELIVERED: Event.ACCEPTED, Event.DONE: Event.RECEIVED, Event.RELEASED: Event.STORED}
SINCE_ROWS = ", ".join(f"({event:d}, {since:d})" for event, since in SINCE.items())
UNIT_ROWS = ", ".join(f"({minutes}, '{unit}')" for minutes, unit in UNITS.items())

LIMITS = {"day_before": 1, "two_days_before": 2, "eight_days_before": 8}  # days before the last counted line
BEGIN = text("INSERT INTO semq_counted (number, at) VALUES (-1, '1970-01-01 UTC') ON CONFLICT DO NOTHING")
# Just-in-time compilation takes longer than the count.
LOCK = text("SELECT set_config('jit', 'off', true), least(at, now()) AS at FROM semq_counted FOR UPDATE")
# Limits by time keep partitions out of the plan, if they are constants. A clock that was put back writes older lines;
# one that was ahead noted a later one.
# A refusal after the acceptance is about one attempt and ends no document.
COUNT = text(f"""
    WITH line AS MATERIALIZED (
        SELECT number, at, side, event, lk0, split_part(target, '/', 1) AS target,
            split_part(target, '/', 2) = '{PIECES_USER}' OR detail LIKE '%{MARKER}' AS is_no_document
        FROM semq_ledger
        WHERE {among(COUNTED)} AND number > (SELECT number FROM semq_counted)
            AND at >= :day_before
        ORDER BY number LIMIT {LINES_MAX}
    ), timed AS (
        SELECT date_trunc('minute', l.at, 'UTC') AS at, l.side, l.event, l.target, count(*) AS documents,
            split_part(l.lk0, '.', 1) || '.' || split_part(l.lk0, '.', 2) AS source,
            CASE WHEN s.event IS NULL THEN {NO_LATENCY}
            ELSE coalesce(width_bucket(extract(epoch FROM l.at - b.at)::float8 * 1000 - 0.5, :bounds), {len(BOUNDS_MS)})
            END AS bucket
        FROM line l LEFT JOIN (VALUES {SINCE_ROWS}) AS s (event, since) ON s.event = l.event
        LEFT JOIN LATERAL (
            SELECT max(f.at) AS at FROM semq_ledger f
            WHERE s.event IS NOT NULL AND f.lk0 = l.lk0 AND f.side = l.side AND f.event = s.since
                AND f.at >= :two_days_before
                AND f.at BETWEEN l.at - interval '1 day' AND l.at + interval '1 hour'
        ) b ON true
        WHERE NOT is_no_document AND NOT (l.event = {Event.REFUSED:d} AND l.side = {Side.SENDER:d} AND EXISTS (
            SELECT FROM semq_ledger a WHERE a.lk0 = l.lk0 AND a.event = {Event.ACCEPTED:d}
                AND a.at >= :eight_days_before
                AND a.at BETWEEN l.at - interval '7 days' AND l.at + interval '1 hour'))
        GROUP BY 1, 2, 3, 4, 6, 7
    ), added AS (
        INSERT INTO semq_figure AS f (minutes, source, target, at, side, event, bucket, documents)
        SELECT p.minutes, w.source, w.target, date_trunc(p.unit, t.at, 'UTC'), t.side, t.event, t.bucket,
            sum(t.documents)
        FROM timed t CROSS JOIN (VALUES {UNIT_ROWS}) AS p (minutes, unit)
        CROSS JOIN LATERAL (
            VALUES ('', ''), (t.source, ''), ('', t.target), (t.source, t.target)) AS w (source, target)
        WHERE (w.source = '' OR w.target = '' OR p.minutes = {PAIRS_BY})
            AND (p.minutes > {MINUTE} OR t.at > now() - interval '{KEPT_DAYS[MINUTE]} days')
        GROUP BY 1, 2, 3, 4, 5, 6, 7 ORDER BY 1, 2, 3, 4, 5, 6, 7
        ON CONFLICT (minutes, source, target, at, side, event, bucket)
        DO UPDATE SET documents = f.documents + excluded.documents
    )
    UPDATE semq_counted c SET number = n.number, at = n.at
    FROM (SELECT max(number) AS number, max(at) AS at, count(*) AS lines FROM line) n WHERE n.number IS NOT NULL
    RETURNING n.lines""")


def count_lines(connection: Connection) -> int:
    """Count the lines that are not counted yet, at most ``LINES_MAX``; return their number."""
    with connection.begin():
        connection.execute(BEGIN)
        counted_at = connection.execute(LOCK).one().at
        limits = {name: counted_at - timedelta(days) for name, days in LIMITS.items()}
        bounds = [float(bound) for bound in BOUNDS_MS]
        return connection.execute(COUNT, {"bounds": bounds, **limits}).scalar() or 0
