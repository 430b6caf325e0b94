"""The homes of institutions: the store of the hub in which documents for each institution wait.

An institution without a home gets one by rendezvous hashing over the stores and their weights. A home stays until an
operator moves it (``operations.stores``) or retires its store.
"""

import math
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from semq.engine.hub.carrier import StoreName
from semq.store.control.cluster import KnownStore
from semq.umx_t.address import Address

NOWHERE: StoreName = (0, 0)
CHANCE_MAX = math.nextafter(1.0, 0.0)


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

    def in_use(self) -> list[StoreName]:
        return [store for store in self.stores if self.is_in_use(store)]

    def missing_homes(self, nodes: Iterable[Address]) -> dict[str, StoreName]:
        """Return a home for each node that has none, or whose home is a retired store."""
        homeless = [str(node) for node in nodes if self.homes.get(str(node), NOWHERE) in self._unusable()]
        return self.homes_by_weight(homeless) if homeless else {}

    def _unusable(self) -> set[StoreName]:
        return self.retired | {NOWHERE}

    def homes_by_weight(self, nodes: Iterable[str]) -> dict[str, StoreName]:
        """Return the home that each node would get now; nothing if all stores in use have weight 0."""
        weights = {
            name: store.weight for name, store in self.stores.items() if self.is_in_use(name) and store.weight > 0
        }
        return {node: home_by_weight(node, weights) for node in nodes} if weights else {}


def home_by_weight(node: str, weights: Mapping[StoreName, float]) -> StoreName:
    """Return the home of a node, the same at every instance. Stores get nodes in proportion to their weights."""
    return max(weights, key=lambda store: (_score(node, store, weights[store]), store))


def _score(node: str, store: StoreName, weight: float) -> float:
    """Return the score of a store for a node. Each store has the highest score for a share of the nodes that is its
    share of the weights.
    """
    digest = blake2b(f"{node} {store[0]}.{store[1]}".encode(), digest_size=8).digest()
    chance = (int.from_bytes(digest, "big") + 1) / (2**64 + 1)
    return -weight / math.log(min(chance, CHANCE_MAX))  # the highest digests are rounded to 1.0
