"""Made-up figures of the week before a demo that stays, so that the charts of its consoles have something to show.

Only the charts have them: no document, no ledger line and no figure of today belongs to them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import psycopg
from msgspec import Struct
from msgspec.structs import asdict
from sqlalchemy import create_engine
from sqlalchemy.dialects.postgresql import insert

from semq.config.file import load
from semq.installation.configuration import HUB, NodePlace
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.figure_tables import semq_figure
from semq.store.figures import HOUR, MINUTE, NO_LATENCY
from semq.store.postgres.connections import URL
from semq.store.reader import connection_parameters
from semq.store.rows import Event, Side

HOURS, MINUTES = 7 * 24, 60  # before the demo
# Documents an hour from one institution to another by hour of the day (UTC), before a variation by up to a fifth
BY_HOUR = (4, 3, 3, 3, 4, 9, 30, 85, 150, 180, 165, 120, 90, 140, 175, 160, 110, 60, 30, 18, 12, 9, 7, 5)
# Bucket of a latency (``figures.BOUNDS_MS``) | documents in this bucket and those before it here, in percent
BUCKETS = {8: 1, 5: 5, 3: 25, 1: 45, 2: 100}
# Kind of node | events of a document that it sends, receives, passes on: side, event, whether it has a latency
SENT = ((Side.SENDER, Event.ACCEPTED, False), (Side.SENDER, Event.DELIVERED, True))
RECEIVED = ((Side.RECEIVER, Event.RECEIVED, False), (Side.RECEIVER, Event.DONE, True))
PASSED_ON = ((Side.HUB, Event.FORWARDED, False),)


class FigureRow(Struct, frozen=True):
    """A row of ``semq_figure``."""

    minutes: int
    source: str
    target: str
    at: datetime
    side: Side
    event: Event
    bucket: int
    documents: int


def fill_charts(place: NodePlace, pairs: Sequence[tuple[str, str]], now: datetime) -> None:
    """Add figures to the database of a running node of the demo. ``pairs``: senders and receivers, by name."""
    settings = load(place.config, {}, place.institution)
    url = settings.database.dsn or EmbeddedPostgres(settings.data_dir).running_url() or ""
    engine = create_engine(URL, creator=lambda: psycopg.connect(**connection_parameters(url, "semq-demo")))
    rows = [asdict(row) for row in figures_of(place.node_id, pairs, now)]
    with engine.begin() as connection:
        connection.execute(insert(semq_figure).on_conflict_do_nothing(), rows)
    engine.dispose()


def figures_of(node: str, pairs: Sequence[tuple[str, str]], now: datetime) -> Iterator[FigureRow]:
    """Yield the rows of a node: by hour for a week, and by minute for an hour, for all, by sender and by receiver."""
    sums = Counter[tuple[int, str, str, datetime, Side, Event, int]]()
    hour, minute = now.replace(minute=0, second=0, microsecond=0), now.replace(second=0, microsecond=0)
    times = [(HOUR, hour - timedelta(hours=number)) for number in range(1, HOURS + 1)]
    times += [(MINUTE, minute - timedelta(minutes=number)) for number in range(1, MINUTES)]
    for source, target in pairs:
        events = PASSED_ON if node == HUB else SENT if node == source else RECEIVED if node == target else ()
        for number, (minutes, at) in enumerate(times):
            documents = max(1, BY_HOUR[at.hour] * minutes * (80 + number * 37 % 40) // 6000)
            for side, event, is_timed in events:
                counted = 0
                for bucket, percent in BUCKETS.items() if is_timed else ((NO_LATENCY, 100),):
                    added, counted = documents * percent // 100 - counted, documents * percent // 100
                    for ends in (("", ""), (f"1.{source}", ""), ("", f"1.{target}")):
                        key = (minutes, *ends, at, side, event, bucket)
                        sums[key] += added
    return (FigureRow(*key, documents) for key, documents in sums.items() if documents)
