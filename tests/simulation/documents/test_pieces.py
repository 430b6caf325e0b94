"""A manifest is delivered only with all its pieces, despite losses, restarts, restored backups and removed pieces."""

from collections import Counter

from tests.depth import deeper
from tests.simulation.plan import draw
from tests.simulation.runs import SimulatorProcess
from tests.simulation.world import World

SEEDS = deeper(40, 150)
FOCUS = frozenset(
    {"pieces", "crash_local", "crash_at_step", "restore_local", "cut", "offline", "commit", "nack", "loss"}
)


def ends_of_manifests(first: int, count: int) -> tuple[list[str], Counter[str]]:
    """Return the violations that some seeds find, and the number of manifests by outcome."""
    found, ends = list[str](), Counter[str]()
    for seed in range(first, first + count):
        world = World(draw(seed, focus=FOCUS))
        found += [f"seed {seed}: {text}" for text in world.run().found.values()]
        messages = world.oracle.messages.values()
        ends.update(message.outcome.name for message in messages if message.is_manifest and message.outcome)
    return found, ends


def test_documents_in_pieces_are_delivered_whole_or_refused(runs: SimulatorProcess) -> None:
    found, ends = runs(ends_of_manifests, 0, SEEDS)
    assert found == []
    assert ends["DELIVERED"] > SEEDS / 2
    assert ends["REJECTED"] > 0  # some pieces were missing
