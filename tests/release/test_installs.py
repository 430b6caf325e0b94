"""Installations in roots of Debian: a root that cannot be made is a result, and the others are tried."""

import subprocess
from pathlib import Path

import pytest

from release import installs
from release.installs import InstallationResult


def test_a_root_that_cannot_be_made_is_a_failed_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise subprocess.CalledProcessError(100, ["apt-get"], output="", stderr="Reading\nE: Release file is expired\n")

    monkeypatch.setattr(installs, "make_root", refuse)
    assert list(installs.in_root(tmp_path, "sid", tmp_path / "semq.whl")) == [
        InstallationResult("Debian sid", "", "debootstrap", ok=False, fault="E: Release file is expired")
    ]
