"""``semq failed list|show|park|requeue|remove``: parked documents, and own documents that were refused.

Lists change nothing. Requeue returns a document to its application, remove ends it; both act on names, a filter or all,
and are recorded in the ledger.
"""

from typing import Annotated, Any

import typer

from semq.cli.errors import NothingSelected
from semq.cli.messages.acts import Why
from semq.cli.messages.message import Id
from semq.cli.messages.presentation import document, facts_of, name_of
from semq.cli.output.values import brief_time, node_name
from semq.cli.session import Session, on_node
from semq.foreign_text import shortened
from semq.umx_t.short_name import short_name

group = typer.Typer()
BATCH = 500
PAGE = 1000  # rows that are asked for at a time
Names = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Short names, locators or AppKeys.")]
All = Annotated[bool, typer.Option("--all", help="All failed documents.")]
Partner = Annotated[str | None, typer.Option(help="The institution at the other end.")]
Type = Annotated[str | None, typer.Option("--type", help="Data type of the AppKey.")]
Key = Annotated[str | None, typer.Option(help="Beginning of the key of the AppKey.")]
Limit = Annotated[int, typer.Option(min=1, max=1000)]


@group.command("list")
@on_node
async def list_(
    session: Session, partner: Partner = None, type: Type = None, key: Key = None, limit: Limit = 100
) -> None:
    """List failed documents, newest first; the exit status is 0 in any case."""
    rows: list[dict[str, Any]] = await session.ask("failed.list", partner=partner, type=type, key=key, limit=limit)
    if session.out.as_json:
        session.out.data(rows)
        return
    columns = (("name", "<"), ("failed", "<"), ("document", "<"), ("from or to", "<"), ("error", "<"))
    session.out.table(
        columns, ((name_of(row), brief_time(row["failed_at"]), document(row), _other(row), _line(row)) for row in rows)
    )


@group.command()
@on_node
async def show(session: Session, id: Id) -> None:
    """Show one failed document: origin, attempts, error with traceback."""
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
    """Park a document that its application cannot process; `requeue` returns it, `remove` ends it."""
    shown = await session.ask("msg.show", id=id)
    await session.ask("failed.park", repeat=False, id=shown["lk0"], error=why)
    session.out.result({"parked": [shown["lk0"]]}, f"{name_of(shown)}  is set aside")


@group.command()
@on_node
async def requeue(
    session: Session, ids: Names = None, everything: All = False, partner: Partner = None, type: Type = None,
    key: Key = None, why: Why = "",
) -> None:  # fmt: skip
    """Return parked documents to their application, and refused SQL submissions to the node; nothing is copied.

    An accepted submission has a new name, which is printed; its old name still finds it.
    """
    await _act(session, "failed.requeue", ids, everything, {"partner": partner, "type": type, "key": key}, why)


@group.command()
@on_node
async def remove(
    session: Session, ids: Names = None, everything: All = False, partner: Partner = None, type: Type = None,
    key: Key = None, why: Why = "",
) -> None:  # fmt: skip
    """Remove failed documents that need no more attention; the ledger keeps their lines."""
    await _act(session, "failed.remove", ids, everything, {"partner": partner, "type": type, "key": key}, why)


async def _act(
    session: Session, operation: str, ids: list[str] | None, everything: bool, wanted: dict[str, Any], why: str
) -> None:
    # A document refused by the hub or a receiver has no application to which it could return; a refused submission is
    # tried again.
    sides = ("inbound", "submitted") if operation == "failed.requeue" else (None,)
    done = Done(session, operation, why)
    if ids:
        await done.act_on([await session.ask("failed.show", id=name) for name in ids])
    elif everything or any(wanted.values()):
        for side in sides:
            while rows := await session.ask("failed.list", side=side, limit=PAGE, **wanted):
                if not await done.act_on(rows):
                    break  # the remaining documents have failed again meanwhile
    else:
        raise NothingSelected
    word = operation.partition(".")[2]
    facts: dict[str, Any] = {word: list(done.lk0s.values())}
    if done.became:
        facts["became"] = done.became
    session.out.result(facts, *(became_line(old, new) for old, new in done.became.items()), f"{word}: {len(done.lk0s)}")


class Done:
    """The documents that one command has acted on."""

    def __init__(self, session: Session, operation: str, why: str) -> None:
        self._session = session
        self._operation = operation
        self._why = why
        self.lk0s: dict[str, str] = {}  #: by the name that was given to the node
        self.became: dict[str, dict[str, Any]] = {}  #: submissions that were tried again, by their old names

    async def act_on(self, rows: list[dict[str, Any]]) -> bool:
        """Act on the rows that were not acted on before; return whether there were any."""
        fresh = {str(row["id"]) if row["side"] == "inbound" else row["lk0"]: row["lk0"] for row in rows}
        # A submission that was refused again under a new name is not tried again by the same command.
        known = {new["lk0"] for new in self.became.values()}
        names = [name for name in fresh if name not in self.lk0s and name not in known]
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            answer = await self._session.ask(self._operation, repeat=False, ids=batch, why=self._why)
            self.became |= answer.get("became") or {}
        self.lk0s |= {name: fresh[name] for name in names}
        return bool(names)


def became_line(old: str, new: dict[str, Any]) -> str:
    """Describe the result for a submission that was tried again, with its old and new names."""
    state = {"accepted": "is accepted as", "refused": "is refused again as", "waits": "waits as"}
    reason = ": " + " ".join(new["reason"]) if new.get("reason") else ""
    return f"{short_name(old) or old}  {state.get(new['state'], 'is tried again soon as')} {new['name']}{reason}"


def _other(row: dict[str, Any]) -> str:
    other = row["source"] if row["side"] == "inbound" else row["target"]
    return ("from " if row["side"] == "inbound" else "to ") + node_name(other)


def _line(row: dict[str, Any]) -> str:
    return shortened(str(row["error"]).partition("\n")[0], 100)
