"""How often each node may do what costs the hub, or all others, something: a bucket for each node, which fills evenly.

Used by ``registry`` for renewals and by ``links`` for logins. Volatile: a restart fills the buckets.
"""


class RateAllowance:
    """``most`` at once, then one more every ``1 / per_s`` seconds."""

    def __init__(self, most: int, per_s: float) -> None:
        self._most = float(most)
        self._per_s = per_s
        self._left: dict[str, tuple[float, float]] = {}  #: and when that was, in monotonic seconds

    def take(self, node: str, now: float) -> bool:
        """Count one; False if the node has none left."""
        left, since = self._left.get(node, (self._most, now))
        left = min(left + (now - since) * self._per_s, self._most)
        may = left >= 1
        self._left[node] = (left - 1 if may else left, now)
        return may
