"""The states of connections and channels as grids: which methods are allowed in which state.

Rows are states, columns are received methods. A cell reads "next state:action"; a dot in place of the state keeps it, a
single dot ignores the method, and ``!`` is a connection exception: 503, or the code that follows. The action is the
method ``_on_<action>`` of ``connection``, ``server`` or ``client`` (``_on_channel_<action>`` for channels). ``traffic``
permits the frame, and the grid of the channel decides. NEW, CLOSE_RECEIVED and CLOSED have no row: ``server`` reads the
protocol header, and ``connection`` answers a repeated close. Source: AMQP 0-9-1, sections 2.3.7, 4.2.2 and 4.5, and the
specification's grammar of each class.
"""

from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from semq.amqp.errors import ChannelError, CommandInvalid, ConnectionException

CELL_ERRORS = {"!": CommandInvalid, "!504": ChannelError}


class ConnectionState(Enum):
    """The state of a connection."""

    __hash__ = object.__hash__  # faster than Enum's, which is written in Python; members are compared by identity

    NEW = "new"  # server: waits for the protocol header; client: before start()
    START_SENT = "start sent"  # server: waits for start-ok
    LOGIN_RECEIVED = "login received"  # server: the owner decides
    TUNE_SENT = "tune sent"  # server: waits for tune-ok
    TUNED = "tuned"  # server: waits for open
    OPEN_RECEIVED = "open received"  # server: the owner decides
    HEADER_SENT = "header sent"  # client: waits for start
    LOGIN_SENT = "login sent"  # client: waits for tune
    OPEN_SENT = "open sent"  # client: waits for open-ok
    OPEN = "open"
    FAILED = "failed"  # server: the peer made an error; the owner sends close when it is its turn
    CLOSE_REQUESTED = "close requested"  # server: close has arrived; the owner answers when it is its turn
    CLOSING = "closing"  # close has been sent: waits for close-ok
    CLOSE_RECEIVED = "close received"  # close-ok has been sent: only a repeated close is answered
    CLOSED = "closed"


class ChannelState(Enum):
    """The state of a channel."""

    __hash__ = object.__hash__  # faster than Enum's, which is written in Python; members are compared by identity

    NONE = "none"  # not in use
    OPENING = "opening"  # client: waits for open-ok
    OPEN = "open"
    FAILED = "failed"  # server: the peer made an error; the owner sends close when it is its turn
    CLOSE_REQUESTED = "close requested"  # server: close has arrived; the owner answers when it is its turn
    CLOSING = "closing"  # close has been sent: waits for close-ok
    CROSSED = "crossed"  # server: both sides have sent close, this one close-ok; the peer may omit its close-ok


# States in which the owner still answers what came before
ANSWERING = frozenset({ChannelState.OPEN, ChannelState.FAILED, ChannelState.CLOSE_REQUESTED})

# Methods of class connection; "channel" is any frame on a channel other than 0. No supported SASL mechanism has a
# challenge.
SERVER_GRID = """
state           start-ok             secure-ok tune-ok     open               update-secret
START_SENT      LOGIN_RECEIVED:login !         !           !                  !
LOGIN_RECEIVED  !                    !         !           !                  !
TUNE_SENT       !                    !         TUNED:tuned !                  !
TUNED           !                    !         !           OPEN_RECEIVED:open !
OPEN_RECEIVED   !                    !         !           !                  !
OPEN            !                    !         !           !                  .:secret
FAILED          .                    .         .           .                  .
CLOSE_REQUESTED .                    .         .           .                  .
CLOSING         .                    .         .           .                  .

state           close                     close-ok     channel
START_SENT      CLOSE_RECEIVED:closed     !            !504
LOGIN_RECEIVED  CLOSE_RECEIVED:closed     !            !504
TUNE_SENT       CLOSE_RECEIVED:closed     !            !504
TUNED           CLOSE_RECEIVED:closed     !            !504
OPEN_RECEIVED   CLOSE_RECEIVED:closed     !            !504
OPEN            CLOSE_REQUESTED:requested !            .:traffic
FAILED          .:repeated                .            .
CLOSE_REQUESTED .:repeated                .            .
CLOSING         .:crossed                 CLOSED:ended .
"""

CLIENT_GRID = """
state       start            secure tune           open-ok     close                 close-ok     channel
HEADER_SENT LOGIN_SENT:start !      !              !           CLOSE_RECEIVED:closed !            !504
LOGIN_SENT  !                !      OPEN_SENT:tune !           CLOSE_RECEIVED:closed !            !504
OPEN_SENT   !                !      !              OPEN:opened CLOSE_RECEIVED:closed !            !504
OPEN        !                !      !              !           CLOSE_RECEIVED:closed !            .:traffic
CLOSING     .                .      .              .           .:crossed             CLOSED:ended .

state       blocked   unblocked   update-secret-ok
HEADER_SENT !         !           !
LOGIN_SENT  !         !           !
OPEN_SENT   .:blocked .:unblocked !
OPEN        .:blocked .:unblocked .:reply
CLOSING     .         .           .
"""

# Methods of class channel; "other" is any other method or content frame.
SERVER_CHANNEL_GRID = """
state           open        open-ok flow   close                  close-ok      other
NONE            OPEN:opened !504    !504   !504                   !504          !504
OPEN            !504        !       .:flow CLOSE_REQUESTED:closed !             .:other
FAILED          .           .       .      CLOSE_REQUESTED:closed .             .
CLOSE_REQUESTED .           .       .      .                      .             .
CLOSING         .           .       .      CROSSED:crossed        NONE:released .
CROSSED         OPEN:opened .       .      .:crossed              NONE:released .
"""

CLIENT_CHANNEL_GRID = """
state   open open-ok        flow   close       close-ok      other
NONE    !504 !504           !504   !504        !504          !504
OPENING !504 OPEN:confirmed !      NONE:closed !             !
OPEN    !504 !              .:flow NONE:closed !             .:other
CLOSING .    .              .      .:crossed   NONE:released .
"""

State = TypeVar("State", ConnectionState, ChannelState)


class Cell(NamedTuple, Generic[State]):
    """One cell: the next state (None: unchanged) and the action ('': none), or the error."""

    state: State | None = None
    action: str = ""
    error: type[ConnectionException] | None = None


Grid = dict[State, dict[str, Cell[State]]]


def read_grid(text: str, states: type[State]) -> "Grid[State]":
    """Return the grid in ``text``. Raises KeyError for an unknown state or code, ValueError for a row of the wrong
    length.
    """
    grid: Grid[State] = {}
    for block in text.strip().split("\n\n"):
        (_, *methods), *rows = map(str.split, block.splitlines())
        for name, *cells in rows:
            row = grid.setdefault(states[name], {})
            row.update({method: _cell(cell, states) for method, cell in zip(methods, cells, strict=True)})
    return grid


def _cell(cell: str, states: type[State]) -> Cell[State]:
    if cell.startswith("!"):
        return Cell(error=CELL_ERRORS[cell])
    next_state, _, action = cell.partition(":")
    return Cell(None if next_state == "." else states[next_state], action)


SERVER = read_grid(SERVER_GRID, ConnectionState)
CLIENT = read_grid(CLIENT_GRID, ConnectionState)
SERVER_CHANNEL = read_grid(SERVER_CHANNEL_GRID, ChannelState)
CLIENT_CHANNEL = read_grid(CLIENT_CHANNEL_GRID, ChannelState)
