"""Operations of ``semq.admin`` at the hub on its definitions: export, diff, import; and following what others import.

A document is kept in the hub's database before it is in force. Other processes of the hub follow: at once (NOTIFY), or
within ten seconds if somebody wrote it in SQL.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from platform_node.definitions import (
    HubDefinitions,
    changes,
    read_definitions,
    written_from,
)
from platform_node.errors import DefinitionsChanged
from platform_node.pairs import stopped
from semq.service.admin import Handler
from semq.store import identities

if TYPE_CHECKING:
    from platform_node.node import HubNode

FOLLOW_S = 10.0
log = structlog.get_logger("semq.definitions")


class Defining:
    """The handlers, and what keeps the directory as the database has it."""

    def __init__(self, node: "HubNode") -> None:
        self._node = node
        self._document = ""

    def table(self) -> dict[str, Handler]:
        """Operation | handler."""
        return {
            "definitions.export": self.export,
            "definitions.diff": self.diff,
            "definitions.import": self.import_,
        }

    async def follow(self) -> None:
        """Put in force what is newer than what is in force."""
        newest = await self._node.store.read(identities.latest_definition)
        if newest is not None and newest[0] > self._node.directory.version:
            self._apply(newest[0], newest[1], read_definitions(newest[1]))

    def _read(self, document: str) -> HubDefinitions:
        """A document that somebody wants to import: every name in it must be known."""
        return read_definitions(document, list(self._node.settings.nodes))

    def _apply(self, version: int, document: str, definitions: HubDefinitions) -> None:
        said = changes(self._node.directory.definitions, definitions)
        before = set(self._node.directory.nodes())
        self._node.directory.apply(version, definitions)
        self._document = document
        self._node.defined(before)
        log.info("definitions_in_force", version=version, changes=said)

    async def export(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The document in force."""
        document = self._document or written_from(sorted(self._node.settings.nodes))
        return {"version": self._node.directory.version, "document": document}

    async def diff(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a document would change, and which pairs of institutions it would stop."""
        definitions = self._read(str(arguments["document"]))
        directory = self._node.directory
        pairs, whole = await asyncio.to_thread(
            stopped, dict(self._node.settings.nodes), directory.definitions, definitions
        )
        return {
            "version": directory.version,
            "changes": changes(directory.definitions, definitions),
            "stops": pairs,
            "stops_whole": whole,
        }

    async def import_(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a document and put it in force. Raises DefinitionsRefused, DefinitionsChanged."""
        document, why = str(arguments["document"]), str(arguments.get("why") or "")
        definitions = self._read(document)
        await self.follow()
        directory = self._node.directory
        expected = arguments.get("expect")
        if expected is not None and int(expected) != directory.version:
            raise DefinitionsChanged(expected=int(expected), in_force=directory.version)
        said, before = changes(directory.definitions, definitions), directory.version
        now = self._node.clock.wall()
        version = await self._node.store.read(identities.add_definition, document, now, why, before)
        if version is None:
            raise DefinitionsChanged("Somebody else has imported definitions at this moment.", expected=before)
        if directory.version < version:
            self._apply(version, document, definitions)
        return {"version": version, "changes": said}
