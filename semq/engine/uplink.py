"""The session of a local node with the hub, shared by all parts of its engine."""

from semq.engine.ports import Link, takes_datagrams
from semq.umx_t.address import Address


class HubSession:
    """The present link and the hub at its end. Changed by ``local_engine`` only."""

    def __init__(self, own: Address) -> None:
        self._own = own
        self.link: Link | None = None
        self.hub: Address | None = None  #: the hub of the last link, also while there is no link

    def begin(self, link: Link) -> None:
        """Begin a session; an earlier one ends."""
        self.link, self.hub = link, link.peer

    def end(self) -> None:
        """End the session."""
        self.link = None

    @property
    def is_up(self) -> bool:
        """Whether there is a session."""
        return self.link is not None

    @property
    def room(self) -> int:
        """The number of messages that the link takes now."""
        return self.link.room if self.link is not None else 0

    @property
    def takes_datagrams(self) -> bool:
        """Whether best-effort documents leave beside the link, whatever its room."""
        return takes_datagrams(self.link)

    def reaches(self, dest: Address) -> bool:
        """Whether frames for a node can be sent now."""
        return self.link is not None or dest == self._own
