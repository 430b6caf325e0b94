"""The selection of documents: options for the fields of ``MessageFilter``, and acts on named or selected documents.

The texts are those of the filter (a test compares them), whose module takes too long to import for a command.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer


class QueueSide(StrEnum):
    """The queue whose documents are listed."""

    all = "all"
    outbound = "outbound"
    inbound = "inbound"
    submitted = "submitted"


SideOption = Annotated[
    QueueSide,
    typer.Option(help="Queue: sent documents and submissions, received documents, or submissions only."),
]
StateOption = Annotated[str | None, typer.Option(help="Status or outcome, for instance SS_SENT, DELIVERED, NEW.")]
PartnerOption = Annotated[
    str | None, typer.Option(metavar="NODE", help="The institution at the other end; at a hub the target.")
]
TypeOption = Annotated[str | None, typer.Option("--type", help="Data type of the AppKey.")]
KeyOption = Annotated[str | None, typer.Option(help="Beginning of the key of the AppKey.")]
CodeOption = Annotated[str | None, typer.Option(help="Error code of the reason.")]
PiecesOption = Annotated[bool, typer.Option("--pieces", help="Also the pieces of documents in pieces.")]
EndedOption = Annotated[
    bool, typer.Option("--ended", help="Documents that have ended, from the ledger, by the time of their end.")
]


def refuse_names_with_selection(ids: Sequence[str] | None, *, is_selected: bool) -> None:
    """Raise BadParameter if documents are named and others are selected: neither may be ignored."""
    if ids and is_selected:
        raise typer.BadParameter("Name documents, or select them by filters or --all, not both.", param_hint="ID")
