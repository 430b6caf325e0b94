"""``semq capacity``: the machines that a platform needs, calculated from measured figures (docs/capacity.md)."""

import math
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import asdict

from semq.cli.output.printer import Output
from semq.cli.session import JsonOption
from semq.sizes import size

KIB = 1024
DAY_S = 86_400


class Measured(Struct, frozen=True):
    """A measured figure, and the command that measures it on a machine like yours."""

    value: float
    unit: str
    command: str


# Processor times are of one core of a machine with two, on which everything ran together. Those of `./run bench` are of
# a hub with as much work as it can do, in batches; documents that come one by one cost more each (PACED).
MEASURED = {
    "hub_online": Measured(52e-6, "s of a core, a document to a target that is online", "./run bench"),
    "hub_stored": Measured(139e-6, "s of a core, a document stored first", "./run bench"),
    "two_instances_online": Measured(98e-6, "s of a core, a document between two instances", "./run bench cluster"),
    "postgres_online": Measured(9e-6, "s of a core, a document to a target that is online", "./run bench"),
    "postgres_stored": Measured(88e-6, "s of a core, a document stored first", "./run bench"),
    "log_online": Measured(0.4 * KIB, "bytes of write-ahead log", "./run bench"),
    "log_stored": Measured(3.6 * KIB, "bytes of write-ahead log", "./run bench"),
    "delivered_from_store": Measured(
        1250, "stored documents a second, from one Postgres", "./run bench --backlog 1000000"
    ),
    "session_memory": Measured(58 * KIB, "bytes of a session", "./run bench sessions --institutions 10000"),
    "session_rest": Measured(7e-6, "of a core, a session at rest", "./run bench sessions --institutions 10000"),
    "login": Measured(2.1e-3, "s of a core, a login by TLS", "./run bench sessions --institutions 10000"),
    "both_nodes": Measured(316e-6, "s of a core, a document at sender and receiver", "./run bench"),
    "hub_10": Measured(1875e-6, "s of a core, a document, one by one, 10 a second", "./run bench everyday --rate 10"),
    "hub_100": Measured(940e-6, "s of a core, a document, one by one, 100 a second", "./run bench everyday --rate 100"),
    "hub_400": Measured(460e-6, "s of a core, a document, one by one, 400 a second", "./run bench everyday --rate 400"),
    "both_nodes_10": Measured(
        7.1e-3, "s of a core, a document at sender and receiver, one by one", "./run bench everyday --rate 10"
    ),
}
PACED = ((10, "hub_10"), (100, "hub_100"), (400, "hub_400"))  # documents a second | figure
PROCESS_MEMORY = 230 * KIB * KIB  # of an instance without sessions
SESSIONS_MAX = 10_000  # of one instance: more were not measured
USE_MAX = 0.5  # of the one core of an instance, in the busiest minute; the rest is for logins and failures of others
LINES = 7  # of ledgers, a document: what the reconciliation reads


def capacity(
    institutions: Annotated[
        int, typer.Option("--institutions", metavar="N", min=1, help="Institutions that are online.")
    ],
    documents_per_day: Annotated[
        int, typer.Option("--documents-per-day", metavar="M", min=1, help="Documents of all institutions in a day.")
    ],
    document_kib: Annotated[
        float, typer.Option("--document-kib", metavar="KIB", min=0, help="Mean size of a document, in KiB.")
    ] = 1.0,
    stored: Annotated[
        float,
        typer.Option("--stored", metavar="SHARE", min=0, max=1, help="Share of documents for offline targets."),
    ] = 0.2,
    peak: Annotated[
        float, typer.Option("--peak", metavar="FACTOR", min=1, help="Busiest minute, as a multiple of the mean.")
    ] = 7.0,
    json: JsonOption = False,
) -> None:
    """Calculate what a platform needs, from measured figures: instances, processors, memory, disk, time of logins."""
    plan = CapacityPlan(institutions, documents_per_day, document_kib * KIB, stored, peak)
    out = Output(as_json=json)
    if json:
        out.data({**plan.facts(), "measured": {name: asdict(one) for name, one in MEASURED.items()}})
        return
    out.table("part, >needs, because", plan.rows())
    out.notice(
        "Calculated from figures of one machine with two cores. Measure yours, in a checkout, before you order any:"
    )
    for command in dict.fromkeys(one.command for one in MEASURED.values()):
        out.notice(f"  {command}")


class CapacityPlan(Struct, frozen=True):
    """A platform: what it has to carry, and what follows."""

    institutions: int
    documents_per_day: int
    document_bytes: float
    stored: float  #: share of documents
    peak: float  #: busiest minute, as a multiple of the mean

    @property
    def documents_s(self) -> float:
        """Documents a second in the busiest minute."""
        return self.documents_per_day / DAY_S * self.peak

    def _mixed(self, online: str, stored: str) -> float:
        """Return the mean of a figure over documents that are passed on and documents that are stored."""
        return MEASURED[online].value * (1 - self.stored) + MEASURED[stored].value * self.stored

    @property
    def instances(self) -> int:
        """Instances of the hub that carry everything; without a reserve."""
        by_sessions = math.ceil(self.institutions / SESSIONS_MAX)
        cores = self.documents_s * self._mixed("hub_online", "hub_stored") + self._rest()
        if by_sessions == 1 and cores <= USE_MAX:
            return 1
        cores = self.documents_s * self._mixed("two_instances_online", "hub_stored") + self._rest()
        return max(by_sessions, math.ceil(cores / USE_MAX))

    def _rest(self) -> float:
        return self.institutions * MEASURED["session_rest"].value

    def facts(self) -> dict[str, float]:
        """Return the figures of the plan: rates a second, times in seconds, sizes in bytes."""
        several = self.instances > 1
        each_s = self.documents_s / self.institutions
        node_paced = min(each_s, PACED[0][0]) * MEASURED["both_nodes_10"].value
        hub = self._mixed("two_instances_online" if several else "hub_online", "hub_stored")
        sessions = math.ceil(self.institutions / self.instances)
        stored_a_day = self.documents_per_day * self.stored
        return {
            "documents_s": self.documents_s,
            "instances": self.instances,
            "reserve": 1 if several else 0,
            "hub_cores": max(self.documents_s * hub, self.instances * _paced(self.documents_s / self.instances))
            + self._rest(),
            "instance_memory_bytes": PROCESS_MEMORY + sessions * MEASURED["session_memory"].value,
            "postgres_cores": self.documents_s * self._mixed("postgres_online", "postgres_stored"),
            "stores": max(
                self.instances,
                math.ceil(self.documents_s * self.stored / (MEASURED["delivered_from_store"].value * USE_MAX)),
            ),
            "log_bytes_day": self.documents_per_day * self._mixed("log_online", "log_stored")
            + stored_a_day * self.document_bytes,
            "held_bytes_day": stored_a_day * (self.document_bytes + KIB),
            "traffic_bytes_s": 2 * self.documents_s * (self.document_bytes + KIB),
            "login_storm_s": sessions * MEASURED["login"].value,
            "node_cores": max(each_s * MEASURED["both_nodes"].value, node_paced),
            "ledger_lines_day": LINES * self.documents_per_day,
        }

    def rows(self) -> list[tuple[str, str, str]]:
        """Return part, need and reason of each figure."""
        facts = self.facts()
        sessions = math.ceil(self.institutions / self.instances)
        reserve = f" + {facts['reserve']:.0f} in reserve" if facts["reserve"] else ""
        return [
            ("busiest minute", f"{facts['documents_s']:,.1f} documents/s", f"{self.peak:g} times the mean of the day"),
            (
                "instances of the hub",
                f"{facts['instances']:,.0f}{reserve}",
                f"at most {SESSIONS_MAX:,} sessions and {USE_MAX:.0%} of a core each",
            ),
            ("processors of the hub", f"{facts['hub_cores']:.2f} cores", "all instances, busiest minute"),
            ("memory of an instance", size(int(facts["instance_memory_bytes"])), f"{sessions:,} sessions"),
            ("processors of Postgres", f"{facts['postgres_cores']:.2f} cores", "all stores of the hub, busiest minute"),
            ("stores of the hub", f"{facts['stores']:,.0f}", f"{self.stored:.0%} of the documents are stored first"),
            (
                "write-ahead log",
                f"{size(int(facts['log_bytes_day']))} a day",
                "all stores; latency of fsync matters more",
            ),
            ("disk for copies", size(int(facts["held_bytes_day"])), "if targets are offline for a day"),
            ("network of the hub", f"{size(int(facts['traffic_bytes_s']))}/s", "in and out, busiest minute"),
            ("login of all sessions", f"{facts['login_storm_s']:.1f} s", "after the restart of an instance, one core"),
            (
                "an institution's node",
                f"{facts['node_cores']:.2%} of a core",
                "mean, busiest minute, with its Postgres",
            ),
            ("reconciliation", f"{facts['ledger_lines_day']:,.0f} lines a day", "ledgers of all nodes"),
        ]


def _paced(documents_s: float) -> float:
    """Return the share of a core that an instance needs for documents one by one; above the last rate, that of it."""
    below_s, below = 0.0, 0.0
    for rate_s, name in PACED:
        use = rate_s * MEASURED[name].value
        if documents_s <= rate_s:
            return below + (use - below) * (documents_s - below_s) / (rate_s - below_s)
        below_s, below = rate_s, use
    return below
