"""A limit on the rate of expensive actions of each node: a token bucket for each node, in memory."""


class RateAllowance:
    """A bucket of ``actions_max`` actions for each node, refilled by one every ``1 / per_s`` seconds."""

    def __init__(self, actions_max: int, per_s: float) -> None:
        self._actions_max = float(actions_max)
        self._per_s = per_s
        #: by node: remaining actions, and the time of this count in monotonic seconds
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, node: str, now: float) -> bool:
        """Take an action from the bucket of a node; return False if the bucket is empty."""
        actions, counted_at = self._buckets.get(node, (self._actions_max, now))
        actions = min(actions + (now - counted_at) * self._per_s, self._actions_max)
        is_allowed = actions >= 1
        self._buckets[node] = (actions - 1 if is_allowed else actions, now)
        return is_allowed
