"""``authority.json``: the state of the last change of the hub's authority. The file is replaced by one rename.

The first authority of a hub is in its key folder, later ones are in ``authorities/GENERATION``.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec.structs import replace

from semq.foreign_text import shortened
from semq.pki.errors import KeyRefused
from semq.pki.succession import Succession

STATE_FILE, LOCK_FILE, LATER_FOLDER = "authority.json", "authority.lock", "authorities"


class Phase(StrEnum):
    """The phases, in order."""

    BELIEVE = "believe"
    RENEW = "renew"
    WITHDRAW = "withdraw"
    DONE = "done"


# Phase | next phase, field of Roll with the nodes that have fulfilled the request of the phase
STEPS = {
    Phase.BELIEVE: (Phase.RENEW, "believing"),
    Phase.RENEW: (Phase.WITHDRAW, "renewed"),
    Phase.WITHDRAW: (Phase.DONE, "dropped"),
    Phase.DONE: (Phase.DONE, "dropped"),
}
# Field of Roll | state of its nodes, for operators
STATE_TEXTS = {
    "believing": "trusts both",
    "renewed": "uses no certificate of the former one",
    "dropped": "trusts the new one only",
}


class Roll(msgspec.Struct, frozen=True):
    """The content of ``authority.json``: the last change."""

    generation: int  #: number of the new authority; a hub's first authority has 1
    phase: Phase
    succession: Succession
    started_at: datetime
    left_behind: tuple[str, ...] = msgspec.field(default=(), name="left")  #: nodes that the change does not wait for
    believing: tuple[str, ...] = ()  #: nodes that trust both authorities
    renewed: tuple[str, ...] = ()  #: nodes that use no certificate of the former authority
    dropped: tuple[str, ...] = ()  #: nodes that no longer trust the former authority
    established: tuple[str, ...] = ()  #: stores whose instances have done their part of the present phase

    @property
    def signs(self) -> int:
        """The generation of the authority that signs."""
        return self.generation - 1 if self.phase is Phase.BELIEVE else self.generation

    def has_done(self, node: str) -> bool:
        """Return whether a node has fulfilled the request of the phase."""
        return node in getattr(self, STEPS[self.phase][1])

    def noted(self, name: str, nodes: Iterable[str]) -> "Roll":
        return replace(self, **{name: tuple(sorted({*getattr(self, name), *nodes}))})


def read_roll(folder: Path) -> Roll | None:
    """Return the state of the last change; None if the authority was never changed. Raises KeyRefused."""
    path = folder / STATE_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Roll)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        fault = shortened(str(error), 200)
        raise KeyRefused("The state of the authority cannot be read.", file=str(path), fault=fault).with_remedy(
            "Give the hub's user the right to read the file; if it is damaged, restore it from a backup."
        ) from error


def folder_of(pki_dir: Path, generation: int) -> Path:
    """Return the folder of an authority's keys."""
    return pki_dir if generation == 1 else pki_dir / LATER_FOLDER / str(generation)


def signing_folder(pki_dir: Path) -> Path:
    """Return the folder of the authority that signs now. Raises KeyRefused."""
    roll = read_roll(pki_dir)
    return folder_of(pki_dir, roll.signs if roll is not None else 1)
