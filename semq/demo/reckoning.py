"""The last scene: every node extracts its ledger, and Spark compares the three. All of it by the command line, as
processes. With certificates every extract is signed and travels as a document, and the signed repair list is applied.

Where Spark is not installed it is fetched first, when everything else has been shown; where that cannot be done the
scene is left out, and says so.
"""

import asyncio
import csv
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from semq.demo.errors import NotReckoned
from semq.demo.stage import COLLECTOR, EXTRACTS, HUB, RECEIVER, REPORTS, SENDER, Place

RUN = Path(__file__).parents[2] / "run"
NEEDED = ("pyarrow", "pyspark")
RECONCILE = (sys.executable, "-P", "-m", "spark_reconcile")
MEMORY = "1g"
FORGOTTEN = "hub_has_no_trace"
# The one whose extract crosses the hub comes last, so that no other ledger has heard of that document.
AFTER_EACH_OTHER = ((HUB, RECEIVER), (SENDER,))
IDLE_S, COLLECTS_MAX = 2, 15
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Reckoning:
    """What the reconciliation found; ``--json`` prints it as ``reconcile``."""

    outcome: str  #: of the run, or left_out
    exit_code: int = 0
    messages: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    report: str = ""
    planted: list[dict[str, str]] = field(default_factory=list)
    found: int = 0  #: of what was planted
    forgotten: int = 0  #: passed on by the hub just before it was killed: it writes its ledger of forwards behind them
    strange: int = 0  #: all other exceptions
    said: str = ""
    repaired: dict[str, dict[str, int]] = field(default_factory=dict)  #: by node: what came of the repair list

    @property
    def is_good(self) -> bool:
        """Whether exactly what was planted was found; a scene that was left out says nothing."""
        if self.outcome == "left_out":
            return True
        published = self.outcome in ("met", "breached")
        has_failed = any("failed" in results for results in self.repaired.values())
        return published and self.found == len(self.planted) and not self.strange and not has_failed

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


async def reckon(
    places: Mapping[str, Place], tell: Tell, *, inject: bool, hub_died: bool, secure: bool = False
) -> Reckoning:
    """Extract, plant if asked for, compare. ``secure``: deliver signed extracts, and apply the signed repair list."""
    if not await _is_installed(tell):
        return Reckoning("left_out", said="The reconciliation needs the packages that `./run setup spark` installs.")
    try:
        await _extract(places, tell, AFTER_EACH_OTHER if secure else (tuple(places),))
        if secure:
            await _collect(places[RECEIVER], places[HUB], tell)
        planted = await _plant(places, tell, secure=secure) if inject else []
        reckoned = await _compare(places[HUB], tell, planted, hub_died=hub_died)
        repaired = await _repair(places, tell) if secure and reckoned.report else {}
    except NotReckoned as error:
        return Reckoning("failed", error.facts["status"], said=error.facts["said"])
    return replace(reckoned, repaired=repaired)


async def _extract(places: Mapping[str, Place], tell: Tell, rounds: Sequence[Sequence[str]]) -> None:
    tell("every node writes what its ledger says of today")
    for names in rounds:
        calls = [_told("extract", "--config", places[name].config, "--business-date", "today") for name in names]
        for failure in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(failure, BaseException):
                raise failure


async def _collect(collector: Place, hub: Place, tell: Tell) -> None:
    """Take the extracts of the institutions out of the inbox of the one that keeps the hub's storage."""
    tell(f"the extracts, signed, travel to {collector.name} as documents, which collects them for the hub")
    storage = ("--extracts", hub.folder / EXTRACTS, "--idle", IDLE_S)
    arrived: set[str] = set()
    for _ in range(COLLECTS_MAX):
        told = await _told("collect", "--config", collector.config, "--user", COLLECTOR, *storage)
        arrived |= set(told["extracts"])
        if len(arrived) == len((SENDER, RECEIVER)):
            break


async def _plant(places: Mapping[str, Place], tell: Tell, *, secure: bool) -> list[dict[str, str]]:
    keys = [word for place in places.values() for word in ("--signed-by", place.config)] if secure else []
    told = await _told("plant", "--config", places[HUB].config, "--business-date", "today", *keys)
    planted: list[dict[str, str]] = told["planted"]
    for one in planted:
        tell(f"planted: {one['verdict']}: {one['how']}")
    return planted


async def _compare(hub: Place, tell: Tell, planted: list[dict[str, str]], *, hub_died: bool) -> Reckoning:
    tell("Spark compares what sender, hub and receiver say of each document; this takes it some seconds")
    code, told, said = await _call("run", "--config", hub.config, "--business-date", "today", "--memory", MEMORY)
    if not told.get("report"):
        return Reckoning(told.get("outcome", "failed"), code, said=said)
    counts = {name: count for name, count in told["verdicts"].items() if count}
    seen = _sort(Path(told["report"]).parent / "exceptions.csv", planted, hub_died=hub_died)
    return Reckoning(told["outcome"], code, told["messages"], counts, told["report"], planted, *seen)


async def _repair(places: Mapping[str, Place], tell: Tell) -> dict[str, dict[str, int]]:
    """Have the institutions do what the list asks that the hub has signed; what came of it, by node and result."""
    done = {}
    for name in (SENDER, RECEIVER):
        place = places[name]
        reports = ("--reports", place.folder / REPORTS, "--business-date", "today")
        done[name] = (await _told("apply", "--config", place.config, *reports, "--yes"))["counts"]
        came = ", ".join(f"{count} {result}" for result, count in done[name].items())
        tell(f"{name} applies the repair list that the hub has signed: {came or 'it asks nothing of it'}")
    return done


def _sort(exceptions: Path, planted: list[dict[str, str]], *, hub_died: bool) -> tuple[int, int, int]:
    """How many of the listed exceptions were planted, are what a killed hub forgets, and are neither."""
    wanted = {(one["lk0"], one["verdict"]) for one in planted}
    seen = Counter[str]()
    with exceptions.open(encoding="utf-8-sig", newline="") as sheet:
        for row in csv.DictReader(sheet):
            is_wanted = (row["Message (LK0)"], row["Verdict"]) in wanted
            is_forgotten = hub_died and row["Finding"] == FORGOTTEN
            seen["found" if is_wanted else "forgotten" if is_forgotten else "strange"] += 1
    return seen["found"], seen["forgotten"], seen["strange"]


async def _is_installed(tell: Tell) -> bool:
    if all(find_spec(name) for name in NEEDED):
        return True
    if not RUN.exists():
        return False
    tell("fetching Spark for the reconciliation, about 500 MB, once (--no-reconcile leaves it out)")
    process = await asyncio.create_subprocess_exec(str(RUN), "setup", "spark", stdin=DEVNULL, stdout=DEVNULL)
    return await process.wait() == 0


async def _told(command: str, *arguments: object) -> dict[str, Any]:
    """What a command told. Raises NotReckoned if it did not end with status 0."""
    code, told, said = await _call(command, *arguments)
    if code:
        raise NotReckoned(command=command, status=code, said=said or str(told))
    return told


async def _call(command: str, *arguments: object) -> tuple[int, dict[str, Any], str]:
    """A command of the reconciliation: exit status, what it told, the last line that it said."""
    process = await asyncio.create_subprocess_exec(
        *RECONCILE, command, *map(str, arguments), "--json", stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        out, err = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    said = err.decode("utf-8", "replace").strip().splitlines()
    told = out.decode().strip().splitlines()
    return process.returncode or 0, json.loads(told[-1]) if told else {}, said[-1] if said else ""
