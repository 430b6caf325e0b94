"""``semq failed list|show|park|requeue|remove``: parked received documents, refused sent documents, and submissions."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from semq.cli.errors import NothingSelected
from semq.cli.messages.acts import Why
from semq.cli.messages.message import Id
from semq.cli.messages.presentation import document_name, facts_of, name_of
from semq.cli.options.selection import (
    CodeOption,
    KeyOption,
    PartnerOption,
    TypeOption,
    refuse_names_with_selection,
)
from semq.cli.output.values import brief_time, counted, node_name
from semq.cli.session import RowsOption, Session, on_node
from semq.foreign_text import shortened
from semq.umx_t.short_name import short_name

if TYPE_CHECKING:
    from semq.answers.messages import MessageRow

group = typer.Typer()
BATCH = 500  # documents in one request to act
PAGE = 1000  # rows in one answer of a list
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Short names, locators (LK0), row numbers, sql-NUMBER, keys or AppKeys."),
]
All = Annotated[bool, typer.Option("--all", help="All failed documents.")]


@group.command("list")
@on_node
async def list_(
    session: Session, partner: PartnerOption = None, type: TypeOption = None, key: KeyOption = None,
    code: CodeOption = None, limit: RowsOption = 100,
) -> None:  # fmt: skip
    """List failed documents, newest first; the exit status is 0 also if there are some."""
    rows = await session.rows("failed.list", limit, partner=partner, type=type, key=key, code=code)
    cells = (
        (name_of(row), brief_time(row["failed_at"]), document_name(row), _other_end(row), _error(row)) for row in rows
    )
    session.out.rows(rows, "name, failed, document, from or to, error", cells)


@group.command()
@on_node
async def show(session: Session, id: Id) -> None:
    """Show one failed document: its facts, and its error with attempts and traceback."""
    row = await session.ask("failed.show", id=id)
    if session.out.as_json:
        session.out.data(row)
        return
    session.out.facts(facts_of(row))
    session.out.line("")
    session.out.text(row["error"], "    ")


@group.command()
@on_node
async def park(session: Session, id: Id, why: Why = "") -> None:
    """Park a received document that its application cannot process: `requeue` returns it, `remove` ends it."""
    shown = await session.ask("msg.show", id=id)
    await session.ask_once("failed.park", id=shown["lk0"], error=why)
    session.out.result({"parked": [shown["lk0"]]}, f"{name_of(shown)}  is parked")


@group.command()
@on_node
async def requeue(
    session: Session, ids: Names = None, everything: All = False, partner: PartnerOption = None,
    type: TypeOption = None, key: KeyOption = None, code: CodeOption = None, why: Why = "",
) -> None:  # fmt: skip
    """Return parked documents to their application, and submit again what was refused or has expired.

    What is submitted again gets a new name, which is printed; its old name remains valid. Exit status 1: some are
    refused again.
    """
    filters = {"partner": partner, "type": type, "key": key, "code": code}
    await _act(session, "failed.requeue", ids, everything, filters, why)


@group.command()
@on_node
async def remove(
    session: Session, ids: Names = None, everything: All = False, partner: PartnerOption = None,
    type: TypeOption = None, key: KeyOption = None, code: CodeOption = None, why: Why = "",
) -> None:  # fmt: skip
    """Remove failed documents that need no further attention; the ledger keeps their lines."""
    filters = {"partner": partner, "type": type, "key": key, "code": code}
    await _act(session, "failed.remove", ids, everything, filters, why)


async def _act(
    session: Session, operation: str, ids: list[str] | None, everything: bool, filters: dict[str, str | None], why: str
) -> None:
    """Act on the named documents, on those that the filters select, or on all."""
    refuse_names_with_selection(ids, is_selected=everything or any(value is not None for value in filters.values()))
    acts = FailedDocumentActs(session, operation, why)
    if ids:
        await acts.act_on([await session.ask("failed.show", id=name) for name in ids])
    elif everything or any(filters.values()):
        async for rows in session.pages("failed.list", PAGE, **filters):
            await acts.act_on(rows)
    else:
        raise NothingSelected
    act = operation.partition(".")[2]
    refused = [old for old, new in acts.became.items() if new["state"] == "refused"]
    facts: dict[str, object] = {act: [lk0 for lk0 in acts.lk0s.values() if lk0 not in refused]}
    if acts.became:
        facts["became"] = acts.became
    if gone := len(acts.lk0s) - acts.done:
        facts["gone"] = gone
    lines = [became_line(old, new) for old, new in acts.became.items()]
    others = [(len(refused), "refused again"), (gone, "not found any more")]
    not_done = "".join(f", {number} {words}" for number, words in others if number)
    session.out.result(facts, *lines, f"{counted(acts.done - len(refused), 'document')} {act}d{not_done}")
    if refused:
        raise typer.Exit(1)


class FailedDocumentActs:
    """The acts of one command, which acts on each document once."""

    def __init__(self, session: Session, operation: str, why: str) -> None:
        self._session = session
        self._operation = operation
        self._why = why
        self.lk0s: dict[str, str] = {}  #: name that was sent to the node | locator of the document
        self.done = 0  #: number of documents on which the node has acted
        self.became: dict[str, dict[str, object]] = {}  #: old LK0 | result of the repetition

    async def act_on(self, rows: "list[MessageRow]") -> None:
        """Act on the rows on which this command has not acted."""
        listed = {str(row["id"]) if row["side"] == "inbound" else row["lk0"]: row["lk0"] for row in rows}
        # A submission that was refused again has a new name; it is not submitted a third time.
        resubmitted = {new["lk0"] for new in self.became.values()}
        names = [name for name in listed if name not in self.lk0s and name not in resubmitted]
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            answer = await self._session.ask_once(self._operation, ids=batch, why=self._why)
            self.done += answer[self._operation.partition(".")[2] + "d"]
            self.became |= answer.get("became") or {}
        self.lk0s |= {name: listed[name] for name in names}


def became_line(old: str, new: dict[str, Any]) -> str:
    """Describe the result of a repeated document or submission, with its old and its new name."""
    state = {"accepted": "is accepted as", "refused": "is refused again as", "waits": "waits as"}
    reason = ": " + " ".join(new["reason"]) if new.get("reason") else ""
    if new["lk0"] == old:  # a sent document keeps its name
        return f"{new['name']}  is refused again{reason}"
    return f"{short_name(old) or old}  {state.get(new['state'], 'will be submitted again as')} {new['name']}{reason}"


def _other_end(row: "MessageRow") -> str:
    if row["side"] == "inbound":
        return f"from {node_name(row['source'])}"
    return f"to {node_name(row['target'])}"


def _error(row: "MessageRow") -> str:
    return shortened(str(row["error"]).partition("\n")[0], 100)
