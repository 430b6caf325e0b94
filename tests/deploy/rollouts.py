"""Rollouts and evictions on Kubernetes, calculated by the rules of its controllers.

The rules: ``pkg/controller/deployment/util`` and ``rolling.go`` (Deployment), ``pkg/controller/disruption`` and
``pkg/registry/core/pod/rest/eviction.go`` (PodDisruptionBudget) of Kubernetes 1.34. Of the pods of one store, only the
holder of the lease is ready; when it ends, the oldest of the others gets the lease.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Rollout:
    """An update of a Deployment. Pods are in the order of their starts."""

    replicas: int
    max_surge: int
    max_unavailable: int
    pods: list[str] = field(default_factory=list)  #: ``old`` or ``new``
    is_interrupted: bool = False  #: whether at some time no pod existed

    @classmethod
    def of(cls, deployment: Mapping[str, Any]) -> "Rollout":
        spec = deployment["spec"]
        strategy = spec["strategy"]
        assert strategy["type"] == "RollingUpdate"
        limits = strategy["rollingUpdate"]
        return cls(spec["replicas"], limits["maxSurge"], limits["maxUnavailable"], ["old"] * spec["replicas"])

    def run(self) -> bool:
        """Apply the rules until nothing changes. Return whether the update is complete."""
        before: list[str] | None = None
        while before != self.pods:
            before = list(self.pods)
            self._start_new()
            self._end_old()
            self.is_interrupted |= not self.pods
        return self._count("new") == self._available("new") == len(self.pods) == self.replicas

    def _count(self, age: str) -> int:
        return self.pods.count(age)

    def _available(self, age: str) -> int:
        return int(self.pods[:1] == [age])

    def _start_new(self) -> None:
        room = self.replicas + self.max_surge - len(self.pods)
        self.pods += ["new"] * max(min(room, self.replicas - self._count("new")), 0)

    def _end_old(self) -> None:
        available_min = self.replicas - self.max_unavailable
        unavailable_new = self._count("new") - self._available("new")
        removable = len(self.pods) - available_min - unavailable_new
        unhealthy = min(max(removable, 0), self._count("old") - self._available("old"))
        for _ in range(unhealthy):
            self.pods.reverse()  # pods that are not ready end first: the youngest old ones
            self.pods.remove("old")
            self.pods.reverse()
        available = self._available("old") + self._available("new")
        if removable > 0 and available > available_min:
            for _ in range(min(available - available_min, self._count("old"))):
                self.pods.remove("old")


def may_evict(budget: Mapping[str, Any], pods: Sequence[bool], *, ready: bool) -> bool:
    """Return whether a pod may be evicted. ``pods``: whether each expected pod of the budget is ready now."""
    spec = budget["spec"]
    desired = len(pods) - int(spec["maxUnavailable"])
    healthy = sum(pods)
    if ready:
        return healthy - desired > 0
    if spec.get("unhealthyPodEvictionPolicy", "IfHealthyBudget") == "AlwaysAllow":
        return True
    return healthy >= desired > 0
