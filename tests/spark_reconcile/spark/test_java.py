"""Java: supported versions, and a shim that drops one argument and keeps all others."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from spark_reconcile.errors import NoJava, SparkAway
from spark_reconcile.spark import java


@pytest.mark.parametrize(
    ("version", "suits"),
    [((17, 0, 15), True), ((21, 0, 8), True), ((25, 0, 3), True), ((25, 0, 2), False), ((11, 0, 2), False),
     ((8, 0, 0), False), ((26, 0, 0), True), ((24, 0, 1), False), (None, False)],
)  # fmt: skip
def test_supported_versions_of_java_are_accepted(version: tuple[int, int, int] | None, suits: bool) -> None:
    assert java.is_suitable(version) is suits


def fake_java(folder: Path, text: str) -> Path:
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return script


@pytest.mark.parametrize(
    ("output", "version"),
    [('openjdk version "17.0.15" 2025-04-15', (17, 0, 15)), ('java version "25"', (25, 0, 0)), ("no such thing", None)],
)
def test_the_version_of_a_java_is_read(tmp_path: Path, output: str, version: tuple[int, int, int] | None) -> None:
    assert java.version_of(fake_java(tmp_path, f"echo '{output}' >&2")) == version
    assert java.version_of(tmp_path / "not-there") is None


def test_the_first_suitable_java_is_used(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "echo 'version \"11.0.2\"' >&2")
    fake_java(tmp_path / "new", "echo 'version \"21.0.1\"' >&2")
    environment = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new" / "bin")}
    home = java.java_home(environment, tmp_path / "cache")
    assert java.version_of(home / "bin" / "java") == (21, 0, 1)


def test_the_java_of_the_wheel_is_used_if_the_machine_has_none(tmp_path: Path) -> None:
    home = java.java_home({"PATH": str(tmp_path)}, tmp_path / "it's a cache")
    assert home.parent == tmp_path / "it's a cache"
    assert java.version_of(home / "bin" / "java") == (21, 0, 8)
    started = subprocess.run(
        [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, check=False
    )
    assert started.returncode == 0, started.stderr
    assert java.java_home({"PATH": str(tmp_path)}, tmp_path / "it's a cache") == home


def test_without_a_folder_for_programs_the_error_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "runs_programs", lambda path: False)
    with pytest.raises(SparkAway) as caught:
        java.folder_for_programs()
    assert "TMPDIR" in caught.value.remedy


def test_the_shim_keeps_all_other_arguments(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "re al'", 'printf "%s\\n" "$@"')
    script = java.make_shim(real, tmp_path / "shim") / "bin" / "java"
    arguments = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", "*", "$HOME"]
    output = subprocess.run([script, *arguments], capture_output=True, text=True, check=True).stdout
    assert output.split("\n")[:-1] == ["-Dx=a b", "--add-modules=java.sql", "", "*", "$HOME"]


def test_without_a_writable_home_the_shim_is_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_text("not a folder")
    home = java.java_home({"PATH": str(tmp_path)}, tmp_path / "file" / "cache")
    assert home.parent.parent == tmp_path
    assert os.access(home / "bin" / "java", os.X_OK)


def test_a_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(NoJava):
        java.java_home({"PATH": str(tmp_path)})
