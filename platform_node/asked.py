"""Exchange ``semq.ask`` in virtual host ``enroll``: what institutions may ask their hub about their own messages.

| operation | who                     | takes | gives                                       |
|-----------|-------------------------|-------|---------------------------------------------|
| trace     | sender or target        | lk0   | node, events: the hub's ledger of a message |

To others a message is one that the hub has never heard of: who may not know of it learns nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from platform_node.logins import ENROLLING
from semq.broker.services import SessionInfo
from semq.broker.vhost import VirtualHost
from semq.pki.errors import TokenRefused
from semq.service.admin import AskedExchange
from semq.store import reading
from semq.store.rows import Event
from semq.umx_t.address import Address, parse_address
from semq.umx_t.locator import parse_lk0

if TYPE_CHECKING:
    from platform_node.node import PlatformNode

ASK_EXCHANGE = "semq.ask"
AT_ONCE = 4  # requests of one node
REQUEST_BYTES_MAX = 4 * 1024
# Lines whose target is the message's own: those of violations bear what an impostor said.
TOLD_TARGETS = frozenset({Event.FORWARDED.name, Event.STORED.name, Event.SENT.name})


class Asked:
    """The handlers."""

    def __init__(self, node: "PlatformNode") -> None:
        self._node = node

    def exchange(self, vhost: VirtualHost) -> AskedExchange:
        """What to register in the virtual host."""
        return AskedExchange(ASK_EXCHANGE, vhost, {"trace": self.trace}, AT_ONCE, REQUEST_BYTES_MAX)

    async def trace(self, session: SessionInfo, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Every line of the hub's ledger about one message. Raises BadLocator."""
        asker, lk0 = _asker(session), parse_lk0(str(arguments["lk0"]))
        events = await self._node.store.read(reading.trace, str(lk0))
        is_theirs = asker == lk0.node or any(
            event["event"] in TOLD_TARGETS and _node_in(event["target"]) == str(asker) for event in events
        )
        return {"node": str(self._node.address), "events": events if is_theirs else []}


def _asker(session: SessionInfo) -> Address:
    """The institution whose link this is. Raises TokenRefused."""
    if session.user.startswith(ENROLLING):
        raise TokenRefused("A token is for enrolment only.")
    return parse_address(session.user)


def _node_in(target: str) -> str:
    """A target of the ledger without its user."""
    return target.partition("/")[0]
