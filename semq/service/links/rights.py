"""The virtual host of links, and the permissions of a node in it."""

import re

from semq.broker.users import Permissions

UMX = "umx"


def link_permissions(node: str) -> Permissions:
    """Return the permissions of a node: read its own queues, publish to the exchange of the links and to
    ``semq.answer``."""
    own = rf"^node\.{re.escape(node)}(\.control|\.asked)?$"
    return Permissions(configure="^$", write=r"^(umx|semq\.answer)$", read=own)
