"""Operations on a local node's own certificate: show, slots, trust, renew."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from semq.pki.errors import NoAuthority, NoIdentity
from semq.service.admin import Handler
from semq.service.identity import NodeIdentity
from semq.service.operations.trust import trusting

if TYPE_CHECKING:
    from local_node.node import LocalNode


def certificate_handlers(node: "LocalNode") -> dict[str, Handler]:
    """Operation | handler."""
    operations = CertificateOperations(node)
    return {
        "cert.show": operations.show,
        "cert.list": operations.list,
        "cert.trust": operations.trust,
        "cert.renew": operations.renew,
        "cert.rotate": operations.rotate,
    }


class CertificateOperations:
    """The handlers."""

    def __init__(self, node: "LocalNode") -> None:
        self._node = node

    @property
    def _who(self) -> NodeIdentity:
        if self._node.who is None:
            raise NoIdentity("The node uses no certificates (hub.url is amqp://).")
        return self._node.who

    async def show(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the active certificate."""
        return self._who.status()

    async def list(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """List all slots."""
        return self._who.slots()

    async def trust(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """List the trusted authorities with fingerprints; add or remove one."""
        return await trusting(self._who, self._node.trust_changed, arguments)

    async def rotate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Make the certificate in slot next active, on a new link."""
        self._who.rotate()
        await self._node.uplink.restart()
        return self._who.status()

    async def renew(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Renew now."""
        if self._node.renewing is None:
            raise NoAuthority("The hub does not sign for this node.")
        await self._node.renewing.now()
        return await self.show(arguments)
