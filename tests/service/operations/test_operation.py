"""Rows of operations and their handlers."""

from pathlib import Path

import pytest

from semq.access_rights import AccessRole
from semq.service.errors import BadArguments, FileFailed
from semq.service.operations.arguments import Arguments, ByName
from semq.service.operations.operation import Caller, Kind, act, bind, look


class BookShelf:
    def __init__(self, node: object = None) -> None:
        self.acts: list[tuple[str, str]] = []

    async def count(self, arguments: Arguments) -> int:
        """Count the books. Never fails."""
        return len(self.acts)

    async def put(self, arguments: ByName, caller: Caller) -> None:
        """Put a book
        on the shelf."""
        self.acts.append((arguments.id, caller.user))


class Archive:
    def __init__(self, file: Path) -> None:
        self.file = file

    async def read(self, arguments: Arguments) -> str:
        """Read the book."""
        return self.file.read_text()

    async def write(self, arguments: Arguments, caller: Caller) -> None:
        """Write the book."""
        self.file.write_text("")


TABLE = (
    look("shelf.count", AccessRole.VIEWER, Arguments, BookShelf.count),
    act("shelf.put", AccessRole.OPERATOR, ByName, BookShelf.put),
)


async def test_operations_are_called_with_mappings() -> None:
    shelf = BookShelf()
    bound = bind(TABLE, None, [shelf])
    anna = Caller("anna", "http")
    await bound["shelf.put"]({"id": "moby"}, anna)
    assert shelf.acts == [("moby", "anna")]
    assert await bound["shelf.count"]({}, anna) == 1
    with pytest.raises(BadArguments):
        await bound["shelf.put"]({}, anna)


async def test_a_file_that_fails_is_named_by_looks_and_acts_at_every_door(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "missing" / "book")
    table = (
        look("book.read", AccessRole.VIEWER, Arguments, Archive.read),
        act("book.write", AccessRole.ADMIN, Arguments, Archive.write),
    )
    for operation in bind(table, None, [archive]).values():
        with pytest.raises(FileFailed) as failed:
            await operation({}, Caller("anna", "instance"))
        assert failed.value.facts == {"file": str(archive.file), "reason": "No such file or directory"}


async def test_handlers_of_a_class_share_one_part_made_for_the_node() -> None:
    bound, anna = bind(TABLE, object()), Caller("anna")
    await bound["shelf.put"]({"id": "moby"}, anna)
    assert await bound["shelf.count"]({}, anna) == 1


def test_a_row_describes_itself() -> None:
    count, put = TABLE
    assert (count.kind, put.kind) == (Kind.LOOK, Kind.ACT)
    assert [row.summary for row in TABLE] == ["Count the books.", "Put a book on the shelf."]
    result = put.described()
    assert (result.name, result.kind, result.role) == ("shelf.put", "act", "operator")
    assert result.arguments["$defs"]["ByName"]["properties"]["id"]["type"] == "string"
