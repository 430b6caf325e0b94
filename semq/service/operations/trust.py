"""Operation ``cert.trust``: list, add or remove trusted authorities of a running node.

Institutions can change to another authority gradually: first all nodes trust both, then certificates of the new one are
installed one by one, then all remove the old one. A change is stored before it takes effect. New connections use it,
and links reconnect, so that no link depends on a removed authority.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from semq.pki.errors import TrustNeeded, TrustUnreadable
from semq.pki.trust import TrustStore, plain_fingerprint
from semq.service.identity import NodeIdentity

AUTHORITIES_MAX = 16


async def trusting(
    who: NodeIdentity, changed: Callable[[], Awaitable[None]], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """List, ``add`` (PEM) or ``remove`` (fingerprint). ``changed`` lets the node use the new authorities.

    Raises TrustUnreadable, TrustNeeded.
    """
    authorities = dict(zip(who.trust.fingerprints, who.trust.authorities, strict=True))
    before = dict(authorities)
    if arguments.get("add"):
        more = TrustStore.from_pem(str(arguments["add"]).encode("utf-8", "replace"))
        more.check_authorities(who.now())
        authorities |= dict(zip(more.fingerprints, more.authorities, strict=True))
        if len(authorities) > AUTHORITIES_MAX:
            raise TrustUnreadable("These are more authorities than a node believes.", most=AUTHORITIES_MAX)
    if arguments.get("remove"):
        wanted = plain_fingerprint(str(arguments["remove"]))
        if wanted not in authorities:
            raise TrustNeeded("The node does not believe an authority of this fingerprint.", fingerprint=wanted[:80])
        del authorities[wanted]
        if not authorities:
            raise TrustNeeded("It is the last authority.", fingerprint=wanted)
    if authorities != before:
        who.retrust(list(authorities.values()))
        await changed()
    return {"fingerprints": who.trust.fingerprints, "pem": who.trust.pem.decode("ascii")}
