"""RabbitMQ of another release of Debian, in a folder of its own, from which it is started by chroot.

``install`` needs root, Debian's package debootstrap, and some 300 MB; it takes a minute. RabbitMQ's alarm of memory
does not work there, because the folder has no /proc.
"""

import os
from pathlib import Path

from release.debian import make_root

RELEASE = "trixie"  # Debian 13 has RabbitMQ 4.0


def install(root: Path, release: str = RELEASE) -> None:
    """Install a release of Debian with RabbitMQ in ``root``, unless it is there already."""
    if not (root / "usr/lib/rabbitmq/bin/rabbitmq-server").exists():
        make_root(root, release, ["rabbitmq-server"])


def give_to_rabbitmq(root: Path, folder: Path) -> None:
    """Make the user of RabbitMQ in ``root`` the owner of a folder and its files."""
    users = (line.split(":") for line in (root / "etc/passwd").read_text().splitlines())
    user, group = next((int(fields[2]), int(fields[3])) for fields in users if fields[0] == "rabbitmq")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, group)
