"""The homes of institutions: the store of the hub in which documents for each institution wait.

An institution without a home gets one by rendezvous hashing over the stores and their weights. The home is then a row
in the control database, so that an additional store changes no home until an operator moves some
(``operations.stores``). A home in a retired store counts as none. Each instance reads new rows every few seconds. Used
by ``cluster``.
"""

import math
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from semq.engine.hub.carrier import StoreName
from semq.store.control.cluster import KnownStore
from semq.umx_t.address import Address

NOWHERE: StoreName = (0, 0)


class HubHomes:
    """Stores and homes, as last read. Implements ``semq.engine.hub.instances.Homes``."""

    def __init__(self) -> None:
        self.stores: dict[StoreName, KnownStore] = {}
        self.homes: dict[str, StoreName] = {}
        self.retired: set[StoreName] = set()

    def of(self, node: Address) -> StoreName | None:
        return self.homes.get(str(node))

    def is_in_use(self, store: StoreName) -> bool:
        return store in self.stores and self.stores[store].is_open and store not in self.retired

    def missing(self, nodes: Iterable[Address]) -> dict[str, StoreName]:
        """Return a home for each node that has none in use."""
        without = [str(node) for node in nodes if self.homes.get(str(node), NOWHERE) in self._nowhere()]
        return self.drawn(without) if without else {}

    def _nowhere(self) -> set[StoreName]:
        return self.retired | {NOWHERE}

    def drawn(self, nodes: Iterable[str]) -> dict[str, StoreName]:
        """Return the home that each node would get now; nothing if no store takes any."""
        taking = {name: one.weight for name, one in self.stores.items() if self.is_in_use(name) and one.weight > 0}
        return {node: draw(node, taking) for node in nodes} if taking else {}


def draw(node: str, stores: Mapping[StoreName, float]) -> StoreName:
    """Return the store of a node: the same at every instance, and distributed by weight."""
    return max(stores, key=lambda store: (_score(node, store, stores[store]), store))


def _score(node: str, store: StoreName, weight: float) -> float:
    """Return the score of a store: the one with the highest wins in proportion to its weight."""
    digest = blake2b(f"{node} {store[0]}.{store[1]}".encode(), digest_size=8).digest()
    chance = (int.from_bytes(digest, "big") + 1) / (2**64 + 1)  # in (0, 1)
    return -weight / math.log(chance)
