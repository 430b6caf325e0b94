"""Operation ``node.reload`` and SIGHUP: read the configuration again without a restart.

First everything is read and checked; then all reloadable keys change in one turn of the event loop. ``RELOADED`` lists
these keys; any other changed key is reported and keeps its value until the next start. Used by ``node``, which applies
the changes in ``reconfigure``.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import structlog

from semq.broker.users import User
from semq.config import load
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.service.access import virtual_hosts

log = structlog.get_logger("semq.reload")

RELOADED: dict[str, tuple[str, ...]] = {
    # section: its keys; with an empty tuple the section counts as one key
    "amqp": (
        "users",
        "virtual_hosts",
        "max_connections",
        "max_connections_per_address",
        "max_queues",
        "max_unacked_bytes",
        "memory_bytes",
        "min_free_disk_bytes",
    ),
    "nodes": (),
    "hub": ("answer_partners",),
    "direct": (),
    "alerts": (),
    "protocol": ("quota_rows_per_partner", "quota_piece_bytes_per_partner", "overdue_s"),
}


class ReloadedNode(Protocol):
    """The part of a node that a reload uses."""

    settings: Settings

    def users_of(self, settings: Settings) -> list[User]:
        """Return the users that a configuration has."""

    async def has_contents(self, vhost: str) -> bool:
        """Return whether anything is stored for a virtual host."""

    def reconfigure(self, settings: Settings, users: list[User]) -> list[str]:
        """Apply changed settings in one turn of the event loop; return the users whose sessions ended. Never raises."""


class Reloading:
    """The reloads of a node, one at a time."""

    def __init__(self, node: ReloadedNode) -> None:
        self._node = node
        self._one_by_one = asyncio.Lock()
        self._asked: set[asyncio.Task[None]] = set()

    def soon(self) -> None:
        """Reload, and write the result to the log."""
        task = asyncio.get_running_loop().create_task(self._logged())
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    def stop(self) -> None:
        """Stop a reload in progress, because the node stops."""
        for task in self._asked:
            task.cancel()

    async def _logged(self) -> None:
        try:
            await self.reload()
        except SemqError as error:
            log.error("not_reloaded", error=error.advice())
        except Exception:
            log.exception("not_reloaded")

    async def reload(self, *, dry_run: bool = False) -> dict[str, Any]:
        """Return the keys that have ``changed``, those that wait for a ``restart``, and the users that were ``ended``.

        ``dry_run``: change nothing. Raises ConfigInvalid, ConfigUnreadable; then nothing has changed.
        """
        async with self._one_by_one:
            node, before = self._node, self._node.settings
            read = await asyncio.to_thread(load, before.file, before.environment, before.institution)
            after = await self._possible(before, read)
            changed, waiting = differences(before, after), differences(after, read)
            users = node.users_of(after)
            if dry_run:
                return {"changed": changed, "restart": waiting, "ended": []}
            # No await from here on: the change must be atomic for everything else.
            ended = node.reconfigure(after, users)
            log.info("reloaded", changed=changed, restart=waiting, ended=ended)
            return {"changed": changed, "restart": waiting, "ended": ended}

    async def _possible(self, before: Settings, read: Settings) -> Settings:
        """Return the new settings with the old values of keys that need a restart."""
        sections: dict[str, Any] = {}
        for name, keys in RELOADED.items():
            section, old = getattr(read, name), getattr(before, name)
            # A hub has no section hub. The first partner of direct links needs a virtual host and a certificate.
            if (keys and None in (section, old)) or (name == "direct" and bool(section) != bool(old)):
                section = old
            elif keys:
                section = old.model_copy(update={key: getattr(section, key) for key in keys})
            sections[name] = section
        after = read_with(before, sections)
        amqp = after.amqp
        hosts = [*before.amqp.virtual_hosts, *await self._new_hosts(before, virtual_hosts(amqp))]
        return read_with(after, {"amqp": amqp.model_copy(update={"virtual_hosts": hosts})})

    async def _new_hosts(self, before: Settings, wanted: Iterable[str]) -> list[str]:
        """Return the new virtual hosts without stored contents, which are restored at a start only."""
        found = [name for name in wanted if name not in before.amqp.virtual_hosts]
        return [name for name in found if not await self._node.has_contents(name)]


def read_with(settings: Settings, sections: Mapping[str, Any]) -> Settings:
    """Return the settings with other sections."""
    return settings.model_copy(update=dict(sections))


def differences(one: Settings, other: Settings) -> list[str]:
    """Return the keys whose values differ, or that only one of them has."""
    left, right = one.values(), other.values()
    absent = object()
    return sorted(key for key in left.keys() | right.keys() if left.get(key, absent) != right.get(key, absent))
