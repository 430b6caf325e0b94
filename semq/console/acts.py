"""The acts on messages that pages offer: a row for each, with the command that does the same.

A page that prints a next step offers the acts of the commands in it (``in_step``), so texts and buttons agree.
"""

from msgspec import Struct

from semq.answers.messages import MessageRow
from semq.umx_t.status import SendStatus


class MessageAct(Struct, frozen=True):
    """An act on one or many messages."""

    operation: str
    label: str  #: on buttons and on the page of the act
    batch: int = 1  #: messages in one request; 1: the operation takes one message
    reason: str = "why"  #: argument with the reason; empty: the operation takes none
    style: str = "second"  #: of the button

    @property
    def command(self) -> str:
        """The command in next steps."""
        return f"`semq {self.operation.replace('.', ' ')} "

    @property
    def shown_by(self) -> str:
        """The operation that shows a message before the act."""
        return "failed.show" if self.operation in ("failed.requeue", "failed.remove") else "msg.show"


ACTS = {
    "inquire": MessageAct("msg.inquire", "inquire now", reason=""),
    "send": MessageAct("msg.resend", "send again"),
    "hold": MessageAct("msg.hold", "hold back"),
    "release": MessageAct("msg.release", "release"),
    "cancel": MessageAct("msg.cancel", "cancel the document", style="danger"),
    "park": MessageAct("failed.park", "park", reason="error"),
    "requeue": MessageAct("failed.requeue", "requeue", 100),
    "remove": MessageAct("failed.remove", "remove", 100, style="danger"),
    "resend": MessageAct("held.resend", "send the copy again", 200),
    "refuse": MessageAct("held.refuse", "refuse the copy", 200, style="danger"),
}


def in_step(step: str) -> list[str]:
    """Return the acts whose commands a next step prints."""
    return [name for name, act in ACTS.items() if act.command in step]


def possible(row: MessageRow, step: str, *, is_hub: bool) -> list[str]:
    """Return the acts that may be possible on a message: by its state, and by its next step (empty: none)."""
    by_state = set(in_step(step))
    if not row.get("cleaned") and row.get("outcome") is None:
        is_outbound = row["side"] == "outbound"
        if not row.get("submission"):
            by_state |= {"inquire"} | ({"send"} if is_outbound else set())
        if is_outbound and not is_hub:
            is_unsent = row.get("ss_status") == SendStatus.SS_INIT.name
            by_state |= {"cancel"} | ({"release"} if row.get("held") else {"hold"} if is_unsent else set())
    return [name for name in ACTS if name in by_state]
