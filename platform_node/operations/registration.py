"""Operations of ``semq.admin`` at the hub on nodes and their certificates: tokens, lists, revocation, trust."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from platform_node.registry import node_in
from semq.engine.errors import UnknownTarget
from semq.moments import utc_text
from semq.pki.errors import NoAuthority
from semq.service.admin import BadArguments, Handler
from semq.service.identity import NodeIdentity, days_left
from semq.service.operations.trust import trusting
from semq.store.identities import Issued

if TYPE_CHECKING:
    from platform_node.node import HubNode

HOURS_MAX = 24 * 30


def registry_handlers(node: "HubNode") -> dict[str, Handler]:
    """Operation | handler."""
    operations = RegistryOperations(node)
    return {
        "nodes.token": operations.token,
        "nodes.tokens": operations.tokens,
        "nodes.rebind": operations.rebind,
        "cert.list": operations.list,
        "cert.revoke": operations.revoke,
        "cert.show": operations.show,
        "cert.trust": operations.trust,
        "cert.renew": operations.renew,
        "cert.rotate": operations.rotate,
    }


class RegistryOperations:
    """The handlers."""

    def __init__(self, node: "HubNode") -> None:
        self._node = node

    @property
    def _who(self) -> NodeIdentity:
        if self._node.who is None:
            raise NoAuthority("The hub serves no TLS (amqp.tls).")
        return self._node.who

    async def token(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """A token with which one node may enrol, once; with what the node's operator needs to be told."""
        address = node_in(arguments)
        if not self._node.is_node(str(address)):
            raise UnknownTarget(target=str(address))
        names = tuple(str(name) for name in arguments.get("names") or ())
        hours = float(arguments.get("hours") or self._node.settings.tls.token_hours)
        if not 0 < hours <= HOURS_MAX:
            raise BadArguments(f"A token serves for up to {HOURS_MAX} hours.", hours=hours)
        token, ticket = await self._node.registry.new_token(address, names, hours)
        authority = self._node.registry.authority
        assert authority is not None  # else there is no token
        return {
            "node": str(address),
            "token": token,
            "expires_at": utc_text(ticket.expires_at),
            "fingerprint": authority.fingerprint,
        }

    async def tokens(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """List the newest tokens: whose, until when, and when each was used. A token itself is stored nowhere."""
        now = self._node.clock.wall()
        return [
            {
                "node": one.node,
                "mark": one.hash.hex()[:8],
                "made_at": utc_text(one.made_at),
                "expires_at": utc_text(one.expires_at),
                "used_at": utc_text(one.used_at) if one.used_at else None,
                "serial": one.serial,
                "state": "used" if one.used_at else "expired" if one.expires_at <= now else "open",
            }
            for one in await self._node.registry.tokens()
        ]

    async def rebind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Let a node come with another store than before."""
        address = node_in(arguments)
        return {"node": str(address), "was_bound": await self._node.registry.rebind(str(address))}

    async def list(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What was issued, the newest first."""
        node = node_in(arguments) if arguments.get("node") else None
        return [self._shown(one) for one in await self._node.registry.certificates(node)]

    def _shown(self, one: Issued) -> dict[str, Any]:
        now = self._node.clock.wall()
        state = "revoked" if one.revoked_at else "expired" if one.not_after < now else "valid"
        return {
            "node": one.node,
            "serial": one.serial,
            "key_id": one.key_id,
            "state": state,
            "issued_at": utc_text(one.issued_at),
            "not_after": utc_text(one.not_after),
            "days_left": days_left(one.not_after, now),
            "revoked_at": utc_text(one.revoked_at) if one.revoked_at else None,
            "why": one.why,
        }

    async def revoke(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Take certificates back: of a node, or one by its serial number; live links end now."""
        changed = await self._node.registry.revoke(str(arguments["which"]), str(arguments.get("why") or ""))
        self._node.revoked()
        return {"revoked": [one.serial for one in changed], "nodes": sorted({one.node for one in changed})}

    async def show(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The hub's own certificate."""
        return self._who.status()

    async def trust(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The authorities that the hub believes, and their fingerprints; one more, or one less."""
        return await trusting(self._who, self._node.trust_changed, arguments)

    async def rotate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Show the certificate in slot next from now on."""
        self._who.rotate()
        return self._who.status()

    async def renew(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Renew the hub's own certificate now."""
        self._node.renew_own()
        return await self.show(arguments)
