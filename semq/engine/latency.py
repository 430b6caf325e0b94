"""Histograms of the time that documents take from stage to stage, for metrics.

| stage        | measured at | from      | to                                            |
|--------------|-------------|-----------|-----------------------------------------------|
| stored       | sender      | submitted | committed at the sender's node                |
| delivered    | sender      | accepted  | the receipt of the target (Ack2) is committed |
| acknowledged | receiver    | recorded  | the application has acknowledged it           |
"""

from bisect import bisect_left
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

BOUNDS_S = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0,
)  # fmt: skip


class Stage(StrEnum):
    """The stages of a document that are measured."""

    STORED = "stored"
    DELIVERED = "delivered"
    ACKNOWLEDGED = "acknowledged"


class Histogram(Struct):
    """Observations of one stage."""

    #: Number of documents in each interval that ends at a bound of BOUNDS_S, not cumulative; the last: above all.
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def observe(self, seconds: float, documents: int = 1) -> None:
        """Add documents that took ``seconds``; a negative time (a clock was put back) counts as 0."""
        seconds = max(0.0, seconds)
        self.counts[bisect_left(BOUNDS_S, seconds)] += documents
        self.sum_s += seconds * documents


class Latency:
    """The histograms of one engine."""

    def __init__(self) -> None:
        self._stages = {stage: Histogram() for stage in Stage}

    def observe(self, stage: Stage, seconds: float, documents: int = 1) -> None:
        """Add documents that took ``seconds`` to a stage."""
        self._stages[stage].observe(seconds, documents)

    @property
    def histograms(self) -> Mapping[Stage, Histogram]:
        return self._stages
