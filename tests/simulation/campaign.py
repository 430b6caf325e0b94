"""Many seeds, shared among processes, with common counts."""

import gc
import logging
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import structlog

from semq.umx_t.grids import GRIDS, HANDLING, HUB, SENDER, SENDER_12, SenderEvent, SenderState
from tests.simulation.disturbances.drills import Goal
from tests.simulation.instances import InstancesWorld
from tests.simulation.mutations import MUTATIONS
from tests.simulation.oracle.rules import RULES, Cell, occasions
from tests.simulation.plan import draw
from tests.simulation.world import CellCoverage, SeedResult, Trace, World

SHARE = 50  # seeds that a process takes at a time
DRILLS = 200  # largest number of seeds that are tried for one cell
GC_THRESHOLDS = 100_000, 20, 100
FINDING_KINDS = ("violations", "lost", "duplicated", "unclean")
# Grid without goals | sets of fault kinds that lead to its cells; each seed uses one set.
FOCUS_OF: dict[str, tuple[frozenset[str], ...]] = {
    HUB.name: (
        frozenset({"act_on_copies", "operator", "rumours", "replay", "stall", "offline", "half_open"}),
        frozenset({"act_on_copies", "operator", "replay", "offline"}),
        frozenset({"act_on_copies", "operator", "half_open", "offline", "nack"}),
    ),
    HANDLING.name: (frozenset({"nack", "stutter", "second_thoughts", "loss", "offline"}),),
}


@dataclass(slots=True)
class Totals:
    """The result of a campaign, or of a part of it."""

    seeds: int = 0
    steps: int = 0
    faults: int = 0
    frames: int = 0
    messages: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[int, str]] = field(default_factory=list)  #: seed, and the violation
    kinds: Counter[str] = field(default_factory=Counter)  #: seeds by kind of fault and feature
    cells: Counter[Cell] = field(default_factory=Counter)
    exercised: Counter[str] = field(default_factory=Counter)  #: seeds with an occasion of a rule
    occasions: Counter[str] = field(default_factory=Counter)  #: of each rule

    def add_seed(self, result: SeedResult) -> None:
        """Add the result of one seed."""
        self.seeds += 1
        self.steps += result.steps
        self.faults += result.faults
        self.frames += result.frames
        self.messages += result.messages
        self.outcomes += result.outcomes
        self.kinds.update(result.kinds)
        self.cells += result.cells
        of_rules = occasions(result.occasions, result.cells)
        self.exercised.update((+of_rules).keys())
        self.occasions += of_rules
        if result.found:
            self.counts.update(result.found.keys())
            self.failed.append((result.seed, "; ".join(f"{kind}: {text}" for kind, text in result.found.items())))

    def add(self, other: "Totals") -> None:
        self.seeds += other.seeds
        self.steps += other.steps
        self.faults += other.faults
        self.frames += other.frames
        self.messages += other.messages
        self.counts += other.counts
        self.outcomes += other.outcomes
        self.failed += other.failed
        self.kinds += other.kinds
        self.cells += other.cells
        self.exercised += other.exercised
        self.occasions += other.occasions

    @property
    def is_clean(self) -> bool:
        return not self.failed

    def report(self) -> dict[str, Any]:
        reached, missing = coverage(self.cells)
        return {
            "seeds": self.seeds,
            "steps": self.steps,
            "faults": self.faults,
            "frames": self.frames,
            "messages": self.messages,
            **{kind: self.counts[kind] for kind in FINDING_KINDS},
            "outcomes": dict(sorted(self.outcomes.items())),
            "coverage": {
                "cells": reached + len(missing),
                "reached": reached,
                "missing": [" ".join(cell) for cell in missing],
            },
            "kinds": dict(sorted(self.kinds.items())),
            "rules": {
                rule.name: {"seeds": self.exercised[rule.name], "occasions": self.occasions[rule.name]}
                for rule in RULES
            },
            "failed_seeds": sorted(seed for seed, _ in self.failed)[:100],
        }


def run_seed(
    seed: int,
    hell: bool | None = None,
    focus: frozenset[str] = frozenset(),
    goal: Goal | None = None,
    *,
    instances: int = 0,
    trace: Trace | None = None,
) -> SeedResult:
    """Run one seed in this process.

    ``instances``: as for ``run_campaign``; ``hell``, ``focus`` and ``goal``: as for ``plan.draw``.
    """
    plan = draw(seed, hell, focus, goal)
    count = instances or plan.instances
    with CellCoverage() as watched:
        result = InstancesWorld(plan, count, trace).run() if count else World(plan, trace).run()
    result.cells = watched.cells
    return result


def run_share(
    first: int,
    count: int,
    hell: bool | None = None,
    mutation: str | None = None,
    focus: frozenset[str] = frozenset(),
    goal: Goal | None = None,
    *,
    stop: bool = False,
    instances: int = 0,
) -> Totals:
    """Run seeds one after another in this process.

    ``mutation``: name of the rule that is removed; None: no rule. ``stop``: end at the first failure. ``instances``: as
    for ``run_campaign``; the rest: as for ``plan.draw``.
    """
    totals = Totals()
    with ExitStack() as stack:
        if mutation:
            focus |= MUTATIONS[mutation].focus
            stack.enter_context(MUTATIONS[mutation].applied())
        for seed in range(first, first + count):
            totals.add_seed(run_seed(seed, hell, focus, goal, instances=instances))
            if stop and totals.failed:
                break
    return totals


def run_campaign(
    first: int,
    count: int,
    workers: int,
    hell: bool | None = None,
    mutation: str | None = None,
    focus: frozenset[str] = frozenset(),
    *,
    stop: bool = False,
    instances: int = 0,
) -> Iterator[Totals]:
    """Run seeds on several processes; yield the result of each share.

    ``stop``: end a share at its first failure. ``instances``: number of instances of the hub; 0: one process, and in
    some plans a second one with another store. The rest: as for ``run_share``.
    """
    shares = [(start, min(SHARE, first + count - start)) for start in range(first, first + count, SHARE)]
    if workers <= 1:
        for start, size in shares:
            yield run_share(start, size, hell, mutation, focus, stop=stop, instances=instances)
        return
    with ProcessPoolExecutor(workers) as pool:
        futures = [
            pool.submit(run_share, start, size, hell, mutation, focus, stop=stop, instances=instances)
            for start, size in shares
        ]
        for future in as_completed(futures):
            yield future.result()


def cover(
    totals: Totals, first: int, known: Mapping[Cell, int] = MappingProxyType({})
) -> Iterator[tuple[Cell, int | None]]:
    """Drill each decided cell that a campaign has not reached; yield each with the seed that reached it.

    The seed is None if no seed reached the cell, or if a drill of another cell reached it. ``known``: seeds that are
    tried first.
    """
    _, missing = coverage(totals.cells)
    for cell in missing:
        grid, state, event = cell
        goal = (grid, SenderState[state], SenderEvent[event]) if grid in (SENDER.name, SENDER_12.name) else None
        seed = None
        for tried in (*([known[cell]] if cell in known else ()), *range(first, first + DRILLS)):
            if cell in totals.cells:
                break
            seed = tried
            totals.add(run_share(seed, 1, goal=goal, focus=focus_of(grid, seed)))
        yield cell, seed if cell in totals.cells else None


def focus_of(grid: str, seed: int) -> frozenset[str]:
    """Return the kinds of faults of a drill; none for grids that are drilled by goals."""
    focuses = FOCUS_OF.get(grid, (frozenset(),))
    return focuses[seed % len(focuses)]


def run_with_drills(count: int, known: Mapping[Cell, int]) -> Totals:
    """Run the first ``count`` seeds. If there is no violation, drill the cells that they did not reach."""
    totals = run_share(0, count)
    if totals.is_clean:
        for _ in cover(totals, 0, known):
            pass
    return totals


def coverage(cells: Collection[Cell]) -> tuple[int, Sequence[Cell]]:
    """Return the number of decided cells that were reached, and the decided cells that were not."""
    decided = {(grid.name, standing.name, on.name) for grid in GRIDS for standing, on in grid.cells()}
    return len(decided.intersection(cells)), sorted(decided.difference(cells))


def table_of_rules(exercised: Mapping[str, int], of_rules: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each rule: the number of seeds that exercised it, and how often it could have failed."""
    yield f"{'rule':20} {'seeds':>6} {'occasions':>9}"
    for rule in RULES:
        yield f"{rule.name:20} {exercised.get(rule.name, 0):6} {of_rules.get(rule.name, 0):9}  {rule.occasion}"


def prepare_process() -> None:
    """Suppress log lines of nodes in this process. Collect garbage rarely: it took a tenth of the time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
