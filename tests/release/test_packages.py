"""Wheel and sdist: their files and metadata, the same bytes from the same sources, and a tour of what they install."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from release import tour
from release.packages import build
from semq import __version__
from tests.house.sources import ROOT, committed

PRODUCT = ("semq", "local_node", "platform_node", "spark_reconcile")
FOR_OPERATORS = ("deploy/systemd/", "deploy/prometheus/", "deploy/grafana/")  # installed in PREFIX/share/semq


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("archives"))


def of_wheel(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def of_sdist(sdist: Path) -> set[str]:
    """Return the names of the files, without the folder that contains all of them."""
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive if member.isfile()}


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return Parser().parsestr(archive.read(f"semq-{__version__}.dist-info/METADATA").decode())


def test_both_archives_have_every_file_of_the_product_and_no_other(archives: tuple[Path, Path]) -> None:
    wheel, sdist = archives
    assert (wheel.name, sdist.name) == (f"semq-{__version__}-py3-none-any.whl", f"semq-{__version__}.tar.gz")
    files = {str(path.relative_to(ROOT)) for path in committed() if path.suffix != ".md"}
    needed = {name for name in files if name.partition("/")[0] in PRODUCT or name.startswith(FOR_OPERATORS)}
    installed = {name.replace(f"semq-{__version__}.data/data/share/semq/", "deploy/") for name in of_wheel(wheel)}
    assert {name for name in installed if ".dist-info/" not in name} == needed
    only_in_sdist = {"pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "PKG-INFO", "setup.cfg"}
    assert {name for name in of_sdist(sdist) if not name.startswith("semq.egg-info/")} == needed | only_in_sdist


def test_the_metadata_say_what_a_stranger_asks(archives: tuple[Path, Path]) -> None:
    wheel, _ = archives
    facts = metadata(wheel)
    assert (facts["Version"], facts["License-Expression"], facts["Requires-Python"]) == (
        __version__,
        "Apache-2.0",
        ">=3.11",
    )
    assert facts["Description-Content-Type"] == "text/markdown"
    assert str(facts.get_payload()).strip() == (ROOT / "README.md").read_text("utf-8").strip()
    assert set(facts.get_all("Provides-Extra", [])) == {"spark", "oidc"}
    assert "Typing :: Typed" in facts.get_all("Classifier", [])
    with zipfile.ZipFile(wheel) as archive:
        scripts = archive.read(f"semq-{__version__}.dist-info/entry_points.txt").decode()
    assert scripts.split() == ["[console_scripts]", "semq", "=", "semq.cli:main"]
    assert f"semq-{__version__}.dist-info/licenses/LICENSE" in of_wheel(wheel)


def test_the_same_sources_give_the_same_bytes(archives: tuple[Path, Path], tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        again = build(tmp_path)
    finally:
        os.umask(mask)
    assert [one.read_bytes() for one in again] == [one.read_bytes() for one in archives]


def test_an_sdist_gives_the_wheel(archives: tuple[Path, Path], tmp_path: Path) -> None:
    wheel, sdist = archives
    pip(tmp_path, "wheel", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(sdist))
    [made] = tmp_path.glob("*.whl")
    assert of_wheel(made) == of_wheel(wheel)
    assert metadata(made).items() == metadata(wheel).items()


def test_a_stranger_gets_from_the_wheel_to_documents_between_two_institutions(
    archives: tuple[Path, Path], tmp_path: Path
) -> None:
    """In an environment of its own, which has the packages that SEMQ needs, but not this checkout."""
    environment, folder = tmp_path / "environment", tmp_path / "tour"
    folder.mkdir()
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    [site] = environment.glob("lib/python*/site-packages")
    # A line of a .pth file adds a folder, but reads no .pth files in it: one of them leads to this checkout.
    (site / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip(tmp_path, "--python", str(python), "install", "--no-index", "--force-reinstall", str(archives[0]))
    code = "import semq, local_node, platform_node, spark_reconcile as s; print(s.__file__, semq.__file__)"
    where = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert all(Path(one).is_relative_to(site) for one in where.split())

    done = subprocess.run(
        [python, "-P", tour.__file__, str(environment / "bin" / "semq"), str(folder)],
        cwd=folder, env=os.environ | {"HOME": str(folder)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert (done.returncode, result["ok"]) == (0, True), (result, done.stderr)
    assert result["semq"] == __version__
    assert {"demo", "document to 10008", "document to 56001", "doctor", "end of all nodes"} <= set(result["steps"])


def test_a_tour_says_which_command_failed(tmp_path: Path) -> None:
    program = tmp_path / "semq"
    program.write_text('#!/bin/sh\n[ "$1" = version ] && echo {} || { echo "no such thing" >&2; exit 3; }\n')
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, tour.__file__, str(program), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["fault"] == "semq --help: status 3: no such thing\n"


def pip(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words, "-q", "--no-deps"]
    subprocess.run(command, cwd=folder, check=True)
