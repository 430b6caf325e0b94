"""Drills: seeds that aim at a cell of the sender's grids that random runs reach too rarely.

A drill is an ordinary run in which the false hints (``rumours``) have an aim: hints that do no harm lead rows to the
column of the cell, then a hint causes the event of the cell.
"""

from random import Random
from typing import TYPE_CHECKING

from semq.engine.errors import UnknownTarget
from semq.engine.sender.receipts import is_given_up
from semq.store.rows import Outbound
from semq.umx_t.envelope import Frame
from semq.umx_t.grids import SenderEvent, SenderState
from semq.umx_t.records import Answer, HubFlag
from semq.umx_t.status import Direction, SaveFwd, SendStatus
from tests.simulation.disturbances.rumours import HINTS, Hint, harmless, hint_packet, refused_copy, truth, truth_packet

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.network import SimLink
    from tests.simulation.world import World

Goal = tuple[str, SenderState, SenderEvent]  # grid, column of the row, event
# How often GOALS has each of the events | grid | column | events.
TABLE = """
1  class3   AWAY        void save unavail fwd fwd_failed
1  class3   AWAY        refused refused_again gone cancel ask offline returned returned_marker returned_late
3  class3   AWAY        recv rej settled resend
1  class3   GONE        settled unavail refused refused_again gone resend cancel returned returned_marker returned_late
1  class3   SS_INIT     settled unavail refused refused_again gone returned returned_marker returned_late
1  class3   SS_SENT     settled unavail gone give_up returned returned_marker returned_late
1  class3   SS_ACK_FWD  unavail gone returned returned_marker returned_late
3  class3   SS_ACK_FWD  settled
1  class3   SS_ACK      settled not_here not_here_bare claim
1  class3   FINAL       unavail not_here not_here_bare offline gone refused returned returned_marker returned_late
4  class12  SS_INIT     recv rej save
3  class3   FINAL       corrected recv
3  class12  FINAL       corrected
1  class12  SS_INIT     returned
1  class12  SS_SENT     returned
1  class12  SS_ACK      discarded fwd_failed
4  class12  SS_ACK      claim
1  class12  FINAL       save discarded refused fwd_failed rej
4  class12  FINAL       claim
1  class12  SS_ACK_FWD  discarded returned
"""
GOALS: tuple[Goal, ...] = tuple(
    (grid, SenderState[standing], SenderEvent[news])
    for times, grid, standing, *all_news in map(str.split, TABLE.strip().splitlines())
    for news in all_news * int(times)
)
# The hint that causes an event.
HINT_OF: dict[SenderEvent, Hint] = {
    SenderEvent.fwd: HubFlag.FORWARDED,
    SenderEvent.fwd_failed: HubFlag.FORWARD_FAILED,
    SenderEvent.discarded: HubFlag.DISCARDED,
    SenderEvent.save: HubFlag.STORED,
    SenderEvent.refused: HubFlag.REFUSED,
    SenderEvent.refused_again: HubFlag.REFUSED,
    SenderEvent.gone: Answer.GONE,
    SenderEvent.unavail: Answer.UNAVAIL,
    SenderEvent.not_here: Answer.NOT,
    SenderEvent.not_here_bare: Answer.NOT,
    SenderEvent.offline: Answer.OFFLINE,
}
# Refusals of a copy by an operator of the hub.
RETURNS = (SenderEvent.returned, SenderEvent.returned_marker, SenderEvent.returned_late)
# Events that need a true statement | the statement.
TRUTHS = {
    SenderEvent.recv: Answer.RECV,
    SenderEvent.rej: Answer.REJ,
    SenderEvent.void: Answer.VOID,
    SenderEvent.settled: Answer.SETTLED,
}
# Column of the goal | present column of a row | the hint that leads the row to the column of the goal.
WAY: dict[SenderState, dict[SenderState, Hint]] = {
    SenderState.AWAY: {
        SenderState.SS_SENT: HubFlag.STORED,
        SenderState.SS_ACK_FWD: HubFlag.STORED,
        SenderState.SS_ACK: Answer.UNAVAIL,
        SenderState.GONE: HubFlag.STORED,
    },
    SenderState.GONE: {
        SenderState.SS_SENT: HubFlag.STORED,
        SenderState.SS_ACK_FWD: HubFlag.STORED,
        SenderState.SS_ACK: Answer.GONE,
        SenderState.AWAY: Answer.GONE,
    },
    SenderState.SS_ACK: {SenderState.SS_SENT: HubFlag.STORED, SenderState.SS_ACK_FWD: HubFlag.STORED},
    SenderState.SS_ACK_FWD: {SenderState.SS_SENT: HubFlag.FORWARDED},
    SenderState.SS_INIT: {SenderState.SS_SENT: Answer.OFFLINE, SenderState.SS_ACK_FWD: HubFlag.FORWARD_FAILED},
}


def drill(chance: Random, link: "SimLink", goal: Goal) -> list[Frame]:
    """Return hints that lead a node's own rows to the cell of the drill."""
    grid, aim, news = goal
    engine = link.owner.engine
    rows = [
        row
        for row in link.owner.tables.outbound.values()
        if row.direction is Direction.OWN and (row.save_fwd is SaveFwd.MUST) is (grid == "class3")
    ]
    chance.shuffle(rows)
    if news is SenderEvent.claim:
        rows = next_to_go(link.owner)
    frames: list[Frame] = []
    for row in rows[:3]:
        standing = engine.rows.state_of(row)
        if news is SenderEvent.claim:
            frames += _while_it_waits(link, row, aim) if standing is SenderState.SS_INIT else []
        elif news in RETURNS and (standing is aim or aim is SenderState.FINAL):
            frames += _returned(link, row, news, ends=aim is SenderState.FINAL)
        elif news is SenderEvent.corrected or (aim is SenderState.FINAL and news is SenderEvent.recv):
            frames += _refused_falsely(link, row, news) if standing is SenderState.SS_SENT else []
        elif aim is SenderState.FINAL:
            frames += _after_its_end(link, row, news)
        elif standing is aim:
            frames += _at_the_aim(link, row, news)
        elif (hint := WAY.get(aim, {}).get(standing)) is not None and hint in _hints(row):
            frames.append(hint_packet(link, row, hint))
    return frames


def next_to_go(host: "Host") -> list[Outbound]:
    """Return the row that is claimed next, for each destination."""
    waiting: dict[str, Outbound] = {}
    for row in host.tables.outbound.values():
        if row.ss_status is SendStatus.SS_INIT and row.outcome is None and not row.held:
            waiting.setdefault(row.dest, row)
    return list(waiting.values())


def _while_it_waits(link: "SimLink", row: Outbound, aim: SenderState) -> list[Frame]:
    """Return hints for a row that waits to be sent."""
    if aim is SenderState.SS_ACK:
        return [hint_packet(link, row, HubFlag.STORED)] if HubFlag.STORED in _hints(row) else []
    entry = truth(link.owner.world, row)
    return [truth_packet(link, row, entry)] if entry is not None else []


def _hints(row: Outbound) -> tuple[Hint, ...]:
    return (*HINTS, *harmless(row, ends=False))


def _at_the_aim(link: "SimLink", row: Outbound, news: SenderEvent) -> list[Frame]:
    if news in TRUTHS:
        entry = truth(link.owner.world, row)
        return [truth_packet(link, row, entry)] if entry is TRUTHS[news] else []
    if news is SenderEvent.give_up:  # the hub may serve the target again later
        return [hint_packet(link, row, HubFlag.REFUSED, UnknownTarget.code)] if is_given_up(row) else []
    hint = HINT_OF.get(news)
    if hint is Answer.NOT:  # true, and harmless while the copy is at the custodian named in the row
        return [hint_packet(link, row, hint)] if _is_in_custody(link.owner.world, row) else []
    return [hint_packet(link, row, hint)] if hint is not None and hint in _hints(row) else []


def _returned(link: "SimLink", row: Outbound, news: SenderEvent, *, ends: bool) -> list[Frame]:
    """Return the refusal of a copy by an operator; with ``ends``, after the true end of the message.

    Return nothing if the event does not fit the row (payload or marker), or if the row cannot have been sent.
    """
    is_marker = news is not SenderEvent.returned
    entry = truth(link.owner.world, row) if ends else None
    may_have_left = row.att > 0 or row.sid < 0
    if row.void is not is_marker or not may_have_left or (ends and entry is None):
        return []
    void = news is SenderEvent.returned_marker
    link.owner.world.oracle.returns(row.lk0, void=void)
    refusal = refused_copy(link, row, void=void)
    return [refusal] if entry is None else [truth_packet(link, row, entry), refusal]


def _is_in_custody(world: "World", row: Outbound) -> bool:
    if row.custodian is None:
        return False
    copies = (hub_store.tables.outbound.get(row.custodian.object_id) for hub_store in world.hub_stores)
    return any(copy is not None and copy.lk0 == row.lk0 for copy in copies)


def _refused_falsely(link: "SimLink", row: Outbound, news: SenderEvent) -> list[Frame]:
    """Let the hub refuse a message that it has forwarded, then let the receiver acknowledge it once or twice."""
    entry = truth(link.owner.world, row)
    if entry is not Answer.RECV or row.att != 1 or row.void:
        return []
    link.owner.world.oracle.messages[row.lk0].falsely_refused = True
    times = 1 if news is SenderEvent.corrected else 2  # a corrected row stays until the cleanup
    return [hint_packet(link, row, HubFlag.REFUSED, UnknownTarget.code), *[truth_packet(link, row, entry)] * times]


def _after_its_end(link: "SimLink", row: Outbound, news: SenderEvent) -> list[Frame]:
    entry, hint = truth(link.owner.world, row), HINT_OF.get(news)
    if entry is None or hint not in (*HINTS, *harmless(row, ends=True)):
        return []
    return [truth_packet(link, row, entry), hint_packet(link, row, hint)]
