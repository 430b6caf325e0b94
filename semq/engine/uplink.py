"""The sessions of a local node: with the hub, and directly with partners (PROTOCOL.md section 26)."""

from collections import Counter

from semq.engine.ports import Link, takes_datagrams
from semq.umx_t.address import Address

DIRECTLY = "by the direct link"  #: remark of the ledger about a message that is sent to its receiver without the hub


class NodeSessions:
    """The session with the hub, and the direct sessions with partners. Changed by ``local_engine`` only."""

    def __init__(self, own: Address) -> None:
        self._own = own
        self.link: Link | None = None  #: the session with the hub
        self.hub: Address | None = None  #: the hub of the last link, also while there is no link
        self._direct: dict[Address, list[Link]] = {}  #: by partner, in the order of their beginning
        #: Number of documents sent in direct sessions, by partner; a document that is sent again counts again.
        self.sent_directly: Counter[Address] = Counter()

    def begin(self, link: Link) -> None:
        self.link, self.hub = link, link.peer

    def end(self) -> None:
        self.link = None

    def begin_direct(self, link: Link) -> None:
        """Begin a session with a partner. There may be two if each side has dialled; the older one is used."""
        self._direct.setdefault(link.peer, []).append(link)

    def end_direct(self, link: Link) -> bool:
        """End a session with a partner; return whether it was known."""
        links = self._direct.get(link.peer, [])
        if link not in links:
            return False
        links.remove(link)
        if not links:
            del self._direct[link.peer]
        return True

    def direct(self, dest: Address) -> Link | None:
        links = self._direct.get(dest)
        return links[0] if links else None

    @property
    def partners(self) -> list[Address]:
        """The partners with a direct session."""
        return list(self._direct)

    def link_for(self, dest: Address) -> Link | None:
        """Return the session that frames for a node take now: the direct one, else that with the hub."""
        return self.direct(dest) or self.link

    def count_if_direct(self, link: Link, number: int) -> None:
        if link.peer in self._direct:
            self.sent_directly[link.peer] += number

    @property
    def is_up(self) -> bool:
        """Whether there is a session with the hub."""
        return self.link is not None

    @property
    def has_any(self) -> bool:
        return self.link is not None or bool(self._direct)

    def room(self, dest: Address) -> int:
        link = self.link_for(dest)
        return link.room if link is not None else 0

    def takes_datagrams(self, dest: Address) -> bool:
        """Whether best-effort documents for a node can leave as datagrams."""
        return takes_datagrams(self.link_for(dest))

    def reaches(self, dest: Address) -> bool:
        return dest == self._own or self.link_for(dest) is not None
