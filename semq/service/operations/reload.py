"""Operation ``node.reload`` and SIGHUP: read the configuration again without a restart.

First the whole configuration is read and checked; then all reloadable keys change in one turn of the event loop. Any
other changed key is reported and keeps its value until the next start. Of ``amqp.virtual_hosts``, only new ones without
stored contents are added. The program of changed folders or webhooks starts again.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Protocol

import structlog

from semq.answers import OperationAnswer
from semq.broker.users import User
from semq.config import load
from semq.config.reload_keys import RELOADED
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.service.access import virtual_hosts

log = structlog.get_logger("semq.reload")

NOT_NEW = ("direct", "folders", "webhooks")  # sections that are reloadable unless they are new or removed


class Reloaded(OperationAnswer, frozen=True, kw_only=True):
    """The differences of a configuration that was read again."""

    changed: list[str]  #: keys whose new values are in use
    restart: list[str]  #: keys that keep their values until the next start
    ended: list[str]  #: users who lost a session because of the change


class ReloadedNode(Protocol):
    """The part of a node that a reload uses."""

    settings: Settings

    def users_of(self, settings: Settings) -> list[User]:
        """Return the users of a configuration."""

    async def has_contents(self, vhost: str) -> bool:
        """Return whether anything is stored for a virtual host."""

    def reconfigure(self, settings: Settings, users: list[User]) -> list[str]:
        """Apply changed settings; return the users who lost a session. Must not raise."""


class Reloading:
    """The reloads of a node, one at a time."""

    def __init__(self, node: ReloadedNode) -> None:
        self._node = node
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start a reload, whose result goes to the log."""
        task = asyncio.get_running_loop().create_task(self._reload_and_log())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _reload_and_log(self) -> None:
        try:
            await self.reload()
        except SemqError as error:
            log.error("not_reloaded", error=error.advice())
        except Exception:
            log.exception("not_reloaded")

    async def reload(self, *, dry_run: bool = False) -> Reloaded:
        """Read the configuration and apply it.

        ``dry_run``: apply nothing. Raises ConfigInvalid, ConfigUnreadable, StoreUnavailable; then nothing has changed.
        """
        async with self._lock:
            node, before = self._node, self._node.settings
            configured = await asyncio.to_thread(load, before.file, before.environment, before.institution)
            after = await self._reloadable(before, configured)
            changed, restart = differences(before, after), differences(after, configured)
            users = node.users_of(after)
            if dry_run:
                return Reloaded(changed=changed, restart=restart, ended=[])
            # No await from here on: no other task may see a part of the change.
            ended = node.reconfigure(after, users)
            log.info("reloaded", changed=changed, restart=restart, ended=ended)
            return Reloaded(changed=changed, restart=restart, ended=ended)

    async def _reloadable(self, before: Settings, configured: Settings) -> Settings:
        """Return the configured settings; keys that need a restart keep their values from before the reload."""
        sections: dict[str, object] = {}
        for name, keys in RELOADED.items():
            section, section_before = getattr(configured, name), getattr(before, name)
            # A hub has no section [hub]. Direct links need a virtual host and a certificate, folders and webhooks a
            # program, which need a restart.
            is_missing = section is None or section_before is None
            if (keys and is_missing) or (name in NOT_NEW and bool(section) != bool(section_before)):
                section = section_before
            elif keys:
                section = section_before.model_copy(update={key: getattr(section, key) for key in keys})
            sections[name] = section
        after = with_sections(before, sections)
        hosts = [*before.amqp.virtual_hosts, *await self._new_hosts(before, virtual_hosts(after.amqp))]
        return with_sections(after, {"amqp": after.amqp.model_copy(update={"virtual_hosts": hosts})})

    async def _new_hosts(self, before: Settings, configured: Iterable[str]) -> list[str]:
        """Return the new virtual hosts for which nothing is stored: only a start restores stored contents."""
        new = [name for name in configured if name not in before.amqp.virtual_hosts]
        return [name for name in new if not await self._node.has_contents(name)]


def with_sections(settings: Settings, sections: Mapping[str, object]) -> Settings:
    """Return the settings with these sections replaced."""
    return settings.model_copy(update=dict(sections))


def differences(left: Settings, right: Settings) -> list[str]:
    """Return the keys whose values differ, or that only one of the settings has."""
    left_values, right_values = left.values(), right.values()
    absent = object()
    keys = left_values.keys() | right_values.keys()
    return sorted(key for key in keys if left_values.get(key, absent) != right_values.get(key, absent))


def companion_settings(name: str, settings: Settings) -> object:
    """Return what a companion reads at its start of the reloadable settings. ``name``: its section."""
    return settings.amqp.users if name == "http" else getattr(settings, name)
