"""The plan of a campaign, from which it can be repeated."""

from dataclasses import dataclass
from pathlib import Path

RATE = 6.0  # documents a second of all lanes together


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    """A seed, and what is drawn from it. The options of ``./run campaign`` are its fields."""

    minutes: float
    seed: int
    rate: float = RATE
    faults: frozenset[str] | None = None  #: kinds; None: all
    traffic: frozenset[str] | None = None  #: kinds of documents; None: all
    doors: frozenset[str] | None = None  #: at which documents are handed over; None: all
    old: str = ""  #: commit of the node of one institution; empty: the present one
    rabbitmq: bool = False  #: the carrier is a cluster of three nodes of RabbitMQ
    root: Path | None = None  #: of RabbitMQ (``bench.rabbitmq.debian``); None: that of the system

    def options(self) -> str:
        """Return the options that repeat the campaign."""
        lists = {"faults": self.faults, "traffic": self.traffic, "doors": self.doors}
        words = [f"--minutes {self.minutes:g} --seed {self.seed} --rate {self.rate:g}"]
        words += [f'--{name} "{",".join(sorted(kinds))}"' for name, kinds in lists.items() if kinds is not None]
        words += [f"--old {self.old}"] if self.old else []
        words += ["--rabbitmq"] if self.rabbitmq else []
        words += [f"--root {self.root}"] if self.root else []
        return " ".join(words)
