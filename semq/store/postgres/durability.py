"""The settings that SEMQ requires of any Postgres before it relies on a COMMIT (PROTOCOL.md section 14).

Checked at each opening of the store, on a connection of the node's own role, so that ``ALTER ROLE … SET`` is included.
"""

from typing import Any

import psycopg

from semq.store.embedded.errors import NotDurable, ServerTooOld

MIN_SERVER_VERSION = 14_00_00

# setting | values with which a confirmed COMMIT survives a crash of the machine
REQUIRED: dict[str, tuple[str, ...]] = {
    "fsync": ("on",),
    "full_page_writes": ("on",),
    "synchronous_commit": ("on", "remote_apply"),
    "data_sync_retry": ("off",),  # "on" repeats a failed fsync, although the kernel has dropped the pages
}


def verify_settings(connection: psycopg.Connection[Any]) -> None:
    """Refuse a server that may lose committed data.

    Raises ServerTooOld(version) below Postgres 14, and NotDurable(setting=value, …) with all wrong settings.
    """
    version = connection.info.server_version
    if version < MIN_SERVER_VERSION:
        raise ServerTooOld(version=version)
    rows = connection.execute("SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", [list(REQUIRED)]).fetchall()
    settings: dict[str, str] = dict(rows)
    wrong: dict[str, Any] = {
        name: settings.get(name) for name, allowed in REQUIRED.items() if settings.get(name) not in allowed
    }
    if wrong:
        raise NotDurable(**wrong)
