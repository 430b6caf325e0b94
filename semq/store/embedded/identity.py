"""As whom the embedded Postgres runs. Postgres refuses root, so root takes another identity for it; others stay
themselves.

Called by ``server`` before any server program runs. Nothing is added to the machine: no account, no opened directory.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from semq.store.embedded.errors import DataDirForeign, RootRefused

NOBODY = 65534  # must be a uid that /etc/passwd knows: Postgres looks its own name up


@dataclass(frozen=True)
class Identity:
    """``prefix`` goes before the command line of a server program; its files belong to uid ``owner`` on the disk."""

    name: str
    prefix: tuple[str, ...]
    owner: int

    def command(self, *argv: str) -> list[str]:
        return [*self.prefix, *argv]

    def own(self, folder: Path) -> None:
        """Give a folder and all in it to the owner, if it is not so already (another identity may have made it)."""
        if os.geteuid() != 0 or folder.stat().st_uid == self.owner:
            return
        for path in (folder, *folder.rglob("*")):
            self.give(path)

    def give(self, path: Path) -> None:
        """Give one file or folder to the owner."""
        if os.geteuid() == 0:
            os.chown(path, self.owner, self.owner, follow_symlinks=False)


# How root becomes somebody else, best first. In a user namespace the files stay root's own, so that nothing changes
# hands. Where namespaces are forbidden (most containers) uid nobody keeps one right of root: to walk through folders
# such as /root.
AS_ROOT = (
    Identity("namespace", ("unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}", "--"), 0),
    Identity(
        "nobody",
        ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=+dac_override",
         "--ambient-caps=+dac_override", "--"),
        NOBODY,
    ),
    Identity("plain nobody", ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"), NOBODY),
)  # fmt: skip


def find_identity(program: str, choices: Sequence[Identity] = AS_ROOT) -> Identity:
    """The first identity under which ``program --version`` runs. Raises RootRefused(tried)."""
    if os.geteuid() != 0:
        return Identity("self", (), os.geteuid())
    for identity in choices:
        if _runs(identity.command(program, "--version")):
            return identity
    raise RootRefused(tried=[identity.name for identity in choices])


def refuse_foreign(folder: Path) -> None:
    """Raise DataDirForeign if an ordinary user was given somebody else's data."""
    if os.geteuid() != 0 and folder.stat().st_uid != os.geteuid():
        raise DataDirForeign(folder=str(folder), owner=folder.stat().st_uid, we_are=os.geteuid())


def _runs(argv: list[str]) -> bool:
    try:
        return subprocess.run(argv, cwd="/", capture_output=True, timeout=20, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
