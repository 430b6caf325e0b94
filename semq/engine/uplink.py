"""The session of a local node with the hub, as all parts of its engine see it."""

from semq.engine.ports import Link
from semq.umx_t.address import Address


class HubSession:
    """The present link, and the hub that it leads to. Changed by ``local_engine`` only."""

    def __init__(self, own: Address) -> None:
        self._own = own
        self.link: Link | None = None
        self.hub: Address | None = None  #: of the last link, also while there is none

    def begin(self, link: Link) -> None:
        """A session has begun; the one before it, if any, is over."""
        self.link, self.hub = link, link.peer

    def end(self) -> None:
        """The session is over."""
        self.link = None

    @property
    def is_up(self) -> bool:
        """Whether there is a session."""
        return self.link is not None

    @property
    def room(self) -> int:
        """The number of messages that the link takes now."""
        return self.link.room if self.link is not None else 0

    def reaches(self, dest: Address) -> bool:
        """Whether anything can be sent towards a node now."""
        return self.link is not None or dest == self._own
