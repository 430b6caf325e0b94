"""Operations of ``semq.admin`` at the hub on its definitions (export, diff, import), and the job ``definitions``.

The job puts definitions in force that another process of the hub imported, or that were written by SQL. It runs every
ten seconds, and after a NOTIFY, which arrives only at a process whose own database is the control database.
"""

import asyncio
from typing import Annotated

import structlog
from msgspec import Meta

from platform_node.definitions import (
    HubDefinitions,
    changes,
    first_text,
    read_definitions,
)
from platform_node.errors import DefinitionsChanged
from platform_node.pairs import stopped_pairs
from platform_node.ports import OperatedHub
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.service.operations.arguments import INT64_MAX, WHY_MAX, Arguments
from semq.service.operations.operation import Caller, act, look
from semq.store import identities

FOLLOW_S = 10.0
log = structlog.get_logger("semq.definitions")

REQUEST_MAX = 64 << 20  # characters; ``read_definitions`` has a lower limit
DefinitionsText = Annotated[str, Meta(max_length=REQUEST_MAX, description="Definitions, TOML.")]


class CompareDefinitions(Arguments, frozen=True, kw_only=True):
    """Definitions to compare with those in force."""

    document: DefinitionsText


class ImportDefinitions(CompareDefinitions, frozen=True, kw_only=True):
    """Definitions to put in force, and a reason."""

    why: Annotated[str, Meta(max_length=WHY_MAX, description="Reason, kept with the definitions.")] = ""
    expect: Annotated[
        Annotated[int, Meta(ge=0, le=INT64_MAX)] | None, Meta(description="Import only if this version is in force.")
    ] = None


class ExportedDefinitions(OperationAnswer, frozen=True, kw_only=True):
    """The definitions in force."""

    version: int  #: 0: none were imported
    document: str


class ComparedDefinitions(OperationAnswer, frozen=True, kw_only=True):
    """The effect that definitions would have."""

    version: int  #: in force
    changes: list[str]
    stops: list[str]  #: pairs of institutions that could no longer send
    stops_whole: bool  #: false: there may be more pairs


class ImportedDefinitions(OperationAnswer, frozen=True, kw_only=True):
    """Definitions that are in force now."""

    version: int
    changes: list[str]


class DefinitionOperations:
    """The handlers."""

    def __init__(self, node: OperatedHub) -> None:
        self._node = node
        self._text = ""  #: the definitions in force; empty until ``follow`` or an import has put some in force
        self._following = asyncio.Lock()  #: held while stored definitions are read and put in force

    async def follow(self) -> None:
        """Put the newest stored definitions in force: the job."""
        async with self._following:
            await self._follow()

    async def _follow(self) -> None:
        newest = await self._node.control(identities.latest_definition)
        version, text = newest or (0, "")
        before = self._node.directory.version
        if (version, text) == (before, self._text):
            return
        if version <= before:  # an instance that starts now would use these, too
            log.error("definitions_went_back", version=version, version_before=before)
        self._apply(version, text, read_definitions(text))

    def _read(self, text: str) -> HubDefinitions:
        return read_definitions(text, list(self._node.settings.nodes))

    def _changes(self, definitions: HubDefinitions) -> list[str]:
        return changes(self._node.directory.definitions, definitions, self._node.settings.nodes)

    def _apply(self, version: int, text: str, definitions: HubDefinitions) -> None:
        changed = self._changes(definitions)
        before = set(self._node.directory.nodes())
        self._node.directory.apply(version, definitions)
        self._text = text
        self._node.apply_definitions(before)
        log.info("definitions_in_force", version=version, changes=changed)

    async def export(self, arguments: Arguments) -> ExportedDefinitions:
        """Return the definitions in force."""
        text = self._text or first_text(sorted(self._node.settings.nodes))
        return ExportedDefinitions(version=self._node.directory.version, document=text)

    async def diff(self, arguments: CompareDefinitions) -> ComparedDefinitions:
        """Return the changes that definitions would make, and the pairs of institutions that could no longer send.

        These include pairs that could no longer send some types of documents, which follow in brackets. At most 200
        pairs are named, and 250,000 compared; `stops_whole` is false if there may be more. Raises DefinitionsRefused.
        """
        definitions = self._read(arguments.document)
        directory = self._node.directory
        pairs, is_complete = await asyncio.to_thread(
            stopped_pairs, dict(self._node.settings.nodes), directory.definitions, definitions
        )
        return ComparedDefinitions(
            version=directory.version, changes=self._changes(definitions), stops=pairs, stops_whole=is_complete
        )

    async def import_(self, arguments: ImportDefinitions, caller: Caller) -> ImportedDefinitions:
        """Store definitions as a new version and put them in force, unless their text is in force already.

        Raises DefinitionsRefused, DefinitionsChanged.
        """
        text, why = arguments.document, caller.with_user(arguments.why)
        definitions = self._read(text)
        async with self._following:
            return await self._import(text, why, arguments.expect, definitions)

    async def _import(
        self, text: str, why: str, expect: int | None, definitions: HubDefinitions
    ) -> ImportedDefinitions:
        await self._follow()
        directory = self._node.directory
        if expect not in (None, directory.version):
            raise DefinitionsChanged(expected=expect, in_force=directory.version)
        if directory.version and text == self._text:
            return ImportedDefinitions(version=directory.version, changes=[])
        changed, version_before = self._changes(definitions), directory.version
        now = self._node.clock.wall()
        version = await self._node.control(identities.add_definition, text, now, why, version_before)
        if version is None:
            raise DefinitionsChanged("Other definitions have been imported at the same time.", expected=version_before)
        self._apply(version, text, definitions)
        return ImportedDefinitions(version=version, changes=changed)


DEFINITIONS = (
    look("definitions.export", AccessRole.VIEWER, Arguments, DefinitionOperations.export),
    look("definitions.diff", AccessRole.OPERATOR, CompareDefinitions, DefinitionOperations.diff),
    act("definitions.import", AccessRole.ADMIN, ImportDefinitions, DefinitionOperations.import_),
)
