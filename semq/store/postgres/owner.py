"""Who owns a store: a process, by a name that no other process has, and the place whose lock proves that it is gone.

Two processes of one node are two owners: the second waits for the lease of the first (``lease``). It need not wait for
one that was killed on the same machine: whoever holds the lock that the other held knows from the kernel that the other
is gone, whatever its process number was. Made by the nodes; a store takes an ``Owner`` and looks no further.

| the process before held                 | the next one in the same place | elsewhere, or on another machine        |
|-----------------------------------------|--------------------------------|-----------------------------------------|
| the lock of its data directory          | steps in at once               | waits until the lease has run out       |
| none: the directory cannot be locked    | waits                          | waits                                   |
| the lock of its embedded database       | steps in at once               | cannot be: there it is another database |
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LOCK = "owner.lock"
EMBEDDED = "embedded"  # nobody opens an embedded database without the lock of its directory (``embedded``)
NOWHERE = "-"


@dataclass(frozen=True, slots=True)
class Owner:
    """One process: ``node`` and ``host`` for people, ``process`` drawn at random, ``place`` what it holds locked.

    No word has a blank in it; as text they stand in ``store_lease.owner``, in this order.
    """

    node: str
    host: str
    process: str
    place: str = NOWHERE

    def __str__(self) -> str:
        return f"{self.node} {self.host} {self.process} {self.place}"


class PlaceLock:
    """The lock of a node's data directory. The kernel lets it go when the process ends, by whatever cause."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / LOCK
        self._held: IO[str] | None = None

    def take(self) -> str:
        """The name of the place if this process holds it, now or since an earlier call; NOWHERE if another process
        does, or if nothing can be locked there.

        The name is what the kernel knows the lock by: this start of the machine, file system, file. A copy of the
        directory is another place, and so is the same directory after the machine was started again.
        """
        if self._held is None:
            self._held = self._locked()
        if self._held is None:
            return NOWHERE
        try:
            boot = BOOT_ID.read_text("ascii").strip()
        except OSError:
            return NOWHERE
        facts = os.fstat(self._held.fileno())
        return f"{boot}/{facts.st_dev}/{facts.st_ino}"

    def release(self) -> None:
        """Let others have it."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _locked(self) -> IO[str] | None:
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            stream = self._file.open("a")
        except OSError:
            return None  # a directory that cannot be written to: the lease alone decides
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.close()
            return None
        return stream
