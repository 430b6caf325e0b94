"""Documents to groups in the simulator: the groups of the hub's directory, and the oracle's records about them.

The oracle checks before each commit that one submission becomes one message for each member in this commit, with the
numbers that the submission promises.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from semq.store.rows import GroupPlace, Outbound
from semq.store.unit import Unit
from semq.umx_t.address import Address, NodeType, parse_address
from semq.umx_t.locator import LK0, parse_lk0
from semq.umx_t.records import Presence

if TYPE_CHECKING:
    from tests.simulation.host import LocalHost
    from tests.simulation.oracle.messages import SimulatedMessage
    from tests.simulation.oracle.oracle import Oracle

ALL = "3.all"
USERS = ("desk", "sales")  # of each institution


def group_of(token: str, target: str) -> str:
    """Return the group to which a document goes, or its own target. The token decides: seeds keep their documents."""
    return (ALL, f"{NodeType.USERS:d}.{target}", target)[sum(token.encode()) // 2 % 3]


def members_of(group: str, source: Address, institutions: Sequence[Address]) -> tuple[str, ...]:
    """Return the addresses that get a document of ``source`` to a group."""
    if group == ALL:
        return tuple(str(each) for each in institutions if each != source)
    node = parse_address(group)._replace(type=NodeType.LOCAL)
    return tuple(str(node._replace(user=user)) for user in USERS)


def records(node: Address, institutions: Sequence[Address]) -> list[Presence]:
    users = [str(each._replace(type=NodeType.USERS)) for each in institutions]
    named = [(group, members_of(group, node, institutions)) for group in (ALL, *users)]
    return [Presence(node=group, allowed=False, members=members) for group, members in named]


def not_reported(nodes: Sequence["LocalHost"]) -> list[str]:
    """Return a text for each pair of nodes in which the first has no report that all users of the second receive."""
    pairs = [(first, second) for first in nodes for second in nodes if first is not second]
    return [
        f"{first.name} has {users} of {second.name}"
        for first, second in pairs
        if (users := first.engine.partners.present.get(str(second.address), ())) != USERS
    ]


class GroupRecords:
    def __init__(self, oracle: "Oracle") -> None:
        self._oracle = oracle
        self._members: dict[LK0, list[SimulatedMessage]] = {}  #: by the name of the submission

    def commits(self, unit: Unit) -> None:
        """Check a unit before it is written; its new rows are in the oracle's records already."""
        rows = [(row.group, row) for row in unit.new_outbound.values() if row.group is not None]
        for name, members in groupby(rows, lambda pair: pair[0].lk0):
            self._accepted(parse_lk0(name), *zip(*members, strict=True))

    def _accepted(self, name: LK0, places: Sequence[GroupPlace], rows: Sequence[Outbound]) -> None:
        demand, institutions = self._oracle.demand, [host.address for host in self._oracle.world.locals]
        expected = members_of(places[0].target, name.node, institutions)
        targets = tuple(str(row.target) for row in rows)
        demand(name not in self._members, "G", "members of one group in two commits", name, "duplicated")
        demand(targets == expected, "G", f"sent to {targets}, members are {expected}", name, "lost")
        pairs = zip(places, rows, strict=True)
        numbered = [(place.member, place.members, row.object_id - name.object_id) for place, row in pairs]
        demand(numbered == [(n + 1, len(rows), n + 1) for n in range(len(rows))], "G", f"numbered {numbered}", name)
        self._members[name] = [self._oracle.messages[row.lk0] for row in rows]

    def messages(self, lk0: LK0) -> Sequence["SimulatedMessage"]:
        """Return the messages of a submission by its name: one, or those of all members of a group."""
        message = self._oracle.messages.get(lk0)
        return self._members.get(lk0, ()) if message is None else (message,)

    def are_together(self, one: "SimulatedMessage", other: "SimulatedMessage") -> bool:
        return bool(one.group) and one.group == other.group
