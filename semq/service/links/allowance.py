"""A limit on expensive actions of each node: a token bucket for each node.

Used by ``registry`` for renewals and by ``links`` for logins. Volatile: a restart fills the buckets.
"""


class RateAllowance:
    """A bucket of ``most`` actions, refilled by one every ``1 / per_s`` seconds."""

    def __init__(self, most: int, per_s: float) -> None:
        self._most = float(most)
        self._per_s = per_s
        #: remaining actions, and the time of the count in monotonic seconds
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, node: str, now: float) -> bool:
        """Count one; False if the node has none left."""
        left, since = self._left.get(node, (self._most, now))
        left = min(left + (now - since) * self._per_s, self._most)
        may = left >= 1
        self._left[node] = (left - 1 if may else left, now)
        return may
