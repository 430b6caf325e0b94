"""Checksums and their signature, licences, versions of the locks, and the archive for machines without a network."""

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from release import bundle, checksums, inventory, packages
from semq import __version__
from tests.house.sources import ROOT


def run(command: list[str] | str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, shell=isinstance(command, str), capture_output=True, text=True, check=False
    )


def test_signed_checksums_are_verified_by_the_commands_that_the_help_names(tmp_path: Path) -> None:
    release, key = tmp_path / "release", tmp_path / "key"
    release.mkdir()
    file = release / "semq.whl"
    file.write_bytes(b"a wheel")
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], tmp_path)
    checksums.sign(checksums.write_sums([file], release), key)
    assert [run(command, release).returncode for command in checksums.VERIFY] == [0, 0]
    file.write_bytes(b"another wheel")
    assert [run(command, release).returncode == 0 for command in checksums.VERIFY] == [True, False]
    checksums.write_sums([file], release)
    assert [run(command, release).returncode == 0 for command in checksums.VERIFY] == [False, True]


def test_licences_are_expressions_identifiers_or_the_first_line_of_a_text() -> None:
    components: list[dict[str, Any]] = [
        {"name": "b", "version": "2", "licenses": [{"expression": "MIT OR Apache-2.0"}]},
        {"name": "a", "version": "1", "licenses": [{"license": {"id": "MIT"}}, {"license": {"name": "The MIT\nText"}}]},
        {"name": "c", "version": "3"},
    ]
    assert inventory.licences(components) == [
        ("a", "1", "MIT; The MIT"),
        ("b", "2", "MIT OR Apache-2.0"),
        ("c", "3", ""),
    ]


@pytest.mark.parametrize("group", ["base", "spark", "test", "release"])
def test_the_versions_of_a_lock_are_constraints_with_their_conditions(group: str) -> None:
    lines = packages.locked_versions(group).splitlines()
    written = (ROOT / f"requirements-{group}.lock").read_text("utf-8")
    assert len(lines) == sum("==" in line and not line.startswith(" ") for line in written.splitlines())
    assert all(" ; " in line and not line.endswith("\\") for line in lines)


def test_the_archive_has_a_script_that_refuses_another_python(tmp_path: Path) -> None:
    folder = tmp_path / bundle.NAME
    (folder / "wheels").mkdir(parents=True)
    archive = bundle.pack(folder, "semq[spark]", tmp_path / "out")
    assert archive.name == f"{bundle.NAME}-spark.tar.gz"
    with tarfile.open(archive) as tar:
        names = {name.removeprefix(f"{bundle.NAME}/") for name in tar.getnames()}
    assert {"install.sh", "README.md", "docs/operate/index.md"} <= names
    script = folder / "install.sh"
    assert f"'semq[spark]=={__version__}'" in script.read_text()
    done = run(f"PYTHON=false {script} {tmp_path}/installed", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"install.sh: false is not Python {bundle.PYTHON} ")
    done = run(f"PYTHON={sys.executable} {script} {tmp_path}/installed", tmp_path)
    assert done.returncode == 1
    assert "No matching distribution found for semq" in done.stderr  # this archive has no wheels
