"""Mounted file systems for tests. Only root may mount, and only where the system permits it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


def mount(place: Path, *arguments: str) -> None:
    """Mount at a folder; skip the test if this user or this machine cannot."""
    try:
        subprocess.run(["mount", *arguments, str(place)], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this user cannot mount: {error.stderr.strip()}")


def unmount(place: Path) -> None:
    """Unmount at once, although files are open; for programs that open files by path, the mount is gone."""
    subprocess.run(["umount", "--lazy", str(place)], check=True, capture_output=True)


@contextmanager
def mounted(place: Path, *arguments: str) -> Iterator[None]:
    mount(place, *arguments)
    try:
        yield
    finally:
        with suppress(subprocess.CalledProcessError):  # the test has unmounted it
            unmount(place)
