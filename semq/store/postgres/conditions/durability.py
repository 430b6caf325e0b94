"""The settings that SEMQ requires of any Postgres before it relies on a COMMIT (PROTOCOL.md section 14).

They are checked on a connection of the node's own role, so that ``ALTER ROLE … SET`` is included.
"""

from collections.abc import Sequence
from typing import Any

import psycopg

from semq.store.embedded.errors import NotDurable, ServerTooOld

MIN_SERVER_VERSION = 15_00_00

# setting | values with which a confirmed COMMIT survives a crash of the machine and a failover to a synchronous standby
REQUIRED: dict[str, tuple[str, ...]] = {
    "fsync": ("on",),
    "full_page_writes": ("on",),
    "synchronous_commit": ("on", "remote_apply"),
    "data_sync_retry": ("off",),  # "on" repeats a failed fsync, although the kernel has dropped the pages
}
SETTINGS = "SELECT " + ", ".join(f"current_setting('{name}', true)" for name in REQUIRED)


def verify_settings(connection: psycopg.Connection) -> None:
    """Refuse a server that may lose committed data.

    Raises ServerTooOld(version) below Postgres 15, and NotDurable(setting=value, …) with all wrong settings.
    """
    verify_row(connection.info.server_version, connection.execute(SETTINGS.encode()).fetchone())


def refuse_old_server(version: int) -> None:
    """Raise ServerTooOld for a version below ``MIN_SERVER_VERSION``."""
    if version < MIN_SERVER_VERSION:
        raise ServerTooOld(version=version)


def verify_row(server_version: int, found: Sequence[str | None] | None) -> None:
    """Refuse the server as ``verify_settings`` does, by the row that ``SETTINGS`` returns."""
    refuse_old_server(server_version)
    wrong: dict[str, Any] = {
        name: value
        for (name, allowed), value in zip(REQUIRED.items(), found or (), strict=True)
        if value not in allowed
    }
    if wrong:
        raise NotDurable(**wrong)
