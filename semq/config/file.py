"""Reading of a configuration: a TOML file, overridden by SEMQ_… environment variables, and all checks.

The name of a variable is the path of a key, with two underscores between the parts: SEMQ_NODES__10008__PASSWORD.
User-defined names become lower case. Lists are written in JSON. Empty variables count as not set.
"""

import errno
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
)

from semq.config.defaults import NESTED, PREFIX
from semq.config.errors import ConfigFault, ConfigInvalid, ConfigUnreadable
from semq.config.institutions import environment_of, institution_tables, is_virtual, server_settings
from semq.config.names import all_keys, is_known, keys_of
from semq.config.nearest import nearest
from semq.config.sections import FolderSection, Section
from semq.config.service_links import service_links
from semq.config.settings import Settings, cross_faults

SectionT = TypeVar("SectionT", bound=Section)
#: tables and environment for ``_loaded``
_sources: ContextVar[tuple[dict[str, object], Mapping[str, str]]] = ContextVar("sources")
# Variables that are not settings. Callers leave out SEMQ_NODE, which looks like a setting.
NOT_SETTINGS = frozenset({"SEMQ_CONFIG", "SEMQ_PERSON", "SEMQ_KEY_PASSPHRASE", "SEMQ_BODIES_KEY", "SEMQ_TOKEN"})
# Tables and keys that only the definitions of a hub have
OF_DEFINITIONS = ("agreements", "groups", "nodes.*.users", "nodes.*.name")
# Keys that name variables with secrets
SECRET_VARIABLES = (("tls", "passphrase_variable"), ("secrecy", "bodies_key_variable"))
# Section | keys with paths; `_finish` adds node.data_dir, folders and webhooks
PATHS = (
    ("tls", ("dir", "trust", "passphrase_file")),
    ("cluster", ("trust",)),
    ("extract", ("folder", "salt_file")),
    ("secrecy", ("bodies_key_file",)),
    ("http", ("certificate", "key", "client_authorities")),
    ("telemetry", ("trust",)),
)
FOLDERS = ("data_dir", "dir", "folder", "path")  # keys with the path of a folder


def load(path: Path | None, env: Mapping[str, str], institution: str | None = None) -> Settings:
    """Load the settings of a node from a TOML file (None: no file) and an environment.

    ``institution``: the one to load, if the file has several. Paths are relative to the folder of the file, paths set
    by variables to the working directory.

    Raises ConfigUnreadable, ConfigInvalid.
    """
    tables = read_toml(path)
    all_variables = {name: value for name, value in env.items() if value and name.upper().startswith(PREFIX)}
    variables: Mapping[str, str] = all_variables
    certificate = None
    origin = path  # named in faults: the file; if it has several institutions, also the table of this institution
    if institution is not None and path is not None:
        origin = Path(f'{path} [institutions."{institution}"]')
        server = server_settings(tables, path)
        certificate = server.server.certificate
        tables = institution_tables(tables, institution, path, server)
        variables = environment_of(variables, institution)
    elif is_virtual(tables):
        raise ConfigInvalid([ConfigFault(str(path), "", "has several institutions: choose one with --institution ID")])
    known = {name: value for name, value in variables.items() if is_known(_parts(name))}
    tables = _with_user_tables(tables)
    settings = None
    try:
        settings = _merge(tables, known)
    except ValidationError as error:
        faults = [_fault(line, origin, known) for line in error.errors()]
    except SettingsError as error:  # a list or table in the environment that is not JSON
        faults = [ConfigFault("environment", "", str(error))]
    else:
        faults = [ConfigFault(_where(key, origin, known), key, text) for key, text in cross_faults(settings)]
    not_settings = NOT_SETTINGS | _secret_variables(settings, tables)
    others = variables.keys() - known.keys() - set(service_links(variables))
    unknown = sorted(name for name in others if name.upper() not in not_settings)
    faults += [_unknown_variable(name) for name in unknown]
    if faults or settings is None:
        raise ConfigInvalid(faults)
    settings = _finish(settings, path, origin, known, tables, all_variables)
    settings.set_institution(institution, certificate)
    return settings


def read_toml(path: Path | None) -> dict[str, Any]:
    """Return the tables of a file. Raises ConfigUnreadable."""
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigUnreadable(f"{path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigUnreadable(f"{path}: not TOML: {error}.") from error


def _secret_variables(settings: Settings | None, tables: Mapping[str, object]) -> frozenset[str]:
    """Return the names of the variables with secrets, in upper case, from the settings or else from the tables."""
    names = set()
    for section, key in SECRET_VARIABLES:
        table = tables.get(section) if settings is None else getattr(settings, section).model_dump()
        names.add(str(table.get(key)).upper() if isinstance(table, dict) else "")
    return frozenset(names)


class _GivenEnvironment(EnvSettingsSource):
    """The environment passed to ``load``."""

    def __init__(self, settings: type[BaseSettings], env: Mapping[str, str]) -> None:
        self._given = env
        super().__init__(settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {_password_variable(name.lower()): value for name, value in self._given.items()}

    def __call__(self) -> dict[str, object]:
        return _with_user_tables(super().__call__())


def _password_variable(name: str) -> str:
    """Return semq_amqp__users__NAME__password for semq_amqp__users__NAME, whose value pydantic would read as JSON."""
    is_user = _parts(name)[:2] == ["amqp", "users"] and len(_parts(name)) == 3
    return f"{name}{NESTED}password" if is_user else name


def _with_user_tables(tables: dict[str, object]) -> dict[str, object]:
    """Replace ``name = "password"`` by a table, into which a variable can put another password."""
    amqp = tables.get("amqp")
    if not isinstance(amqp, dict) or not isinstance(users := amqp.get("users"), dict):
        return tables
    user_tables = {name: user if isinstance(user, dict) else {"password": user} for name, user in users.items()}
    return {**tables, "amqp": {**amqp, "users": user_tables}}


def _merge(tables: dict[str, object], env: Mapping[str, str]) -> Settings:
    before = _sources.set((tables, env))
    try:
        return _loaded()()
    finally:
        _sources.reset(before)


@cache  # making the class takes longer than the rest of ``load``
def _loaded() -> Callable[[], Settings]:
    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: PydanticBaseSettingsSource, **__: PydanticBaseSettingsSource
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            tables, env = _sources.get()
            return _GivenEnvironment(settings_cls, env), InitSettingsSource(settings_cls, init_kwargs=tables)

    return Loaded  # type: ignore[return-value] # the sources provide the fields


def _finish(
    settings: Settings,
    path: Path | None,
    origin: Path | None,
    known: Mapping[str, str],
    tables: dict[str, object],
    variables: Mapping[str, str],
) -> Settings:
    """Return the settings with absolute paths and origins. Raises ConfigInvalid.

    ``known``: the variables that set a key.
    """
    data_dir = _resolved(settings.data_dir, "node.data_dir", origin, known)
    node = settings.node.model_copy(update={"data_dir": data_dir})
    sections = ((name, getattr(settings, name), keys) for name, keys in PATHS)
    absolute = {
        name: _with_absolute_paths(section, name, keys, origin, known)
        for name, section, keys in sections
        if section is not None
    }
    folders = [_with_absolute_paths(folder, "folders", ("path",), origin, known) for folder in settings.folders]
    webhooks = [
        _with_absolute_paths(webhook, "webhooks", ("trust", "certificate", "key"), origin, known)
        for webhook in settings.webhooks
    ]
    nested = [ConfigFault(_where(key, origin, known), key, text) for key, text in _nested_folders(folders)]
    if nested:
        raise ConfigInvalid(nested)
    settings = settings.model_copy(update={"node": node, "folders": folders, "webhooks": webhooks, **absolute})
    set_keys = [key for key in settings.values() if _variable(key, known) or _is_set_in(tables, key)]
    settings.set_origins(
        {key: _where(key, path, known) for key in set_keys}, path.resolve() if path else None, variables
    )
    return settings


def _nested_folders(folders: Sequence[FolderSection]) -> Iterator[tuple[str, str]]:
    """Yield key and fault of each folder that lies in an earlier folder, or contains one."""
    real_paths = [folder.path.resolve() for folder in folders]
    for number, path in enumerate(real_paths):
        for earlier in real_paths[:number]:
            if path.is_relative_to(earlier) or earlier.is_relative_to(path):
                outer, inner = sorted((path, earlier), key=lambda nested: len(nested.parts))
                yield (
                    f"folders.{number}.path",
                    f"{inner} lies in {outer}; choose folders that do not contain each other",
                )


def _resolved(given: Path | str, key: str, origin: Path | None, env: Mapping[str, str]) -> Path:
    """Return an absolute path. Raises ConfigInvalid."""
    base = origin.parent if origin is not None and _variable(key, env) is None else Path()
    try:
        resolved = (base / given).resolve()
        if any(map(os.path.islink, (resolved, *resolved.parents))):  # from Python 3.13 on, a loop of links stays
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(given))
        # Files are replaced by changing a link (Kubernetes, certbot), so the link stays in their path.
        is_folder = key.rpartition(".")[2] in FOLDERS
        file = Path(os.path.normpath(base.resolve() / given))
        is_pipe = not is_folder and file.is_fifo()
    except (ValueError, RuntimeError, OSError) as error:  # a NUL character, a loop of links (RuntimeError before 3.13)
        raise ConfigInvalid([ConfigFault(_where(key, origin, env), key, f"not a valid path: {error}")]) from error
    if is_pipe:
        fault = f"{file} is a named pipe, for which a start would wait: name a regular file"
        raise ConfigInvalid([ConfigFault(_where(key, origin, env), key, fault)])
    return resolved if is_folder else file


def _with_absolute_paths(
    section: SectionT, name: str, keys: tuple[str, ...], origin: Path | None, env: Mapping[str, str]
) -> SectionT:
    """Return a section with absolute paths in ``keys``; addresses such as s3://… stay."""
    update: dict[str, object] = {}
    for key in keys:
        given: Path | str | None = getattr(section, key)
        if given and "://" not in str(given):
            absolute = _resolved(given, f"{name}.{key}", origin, env)
            update[key] = str(absolute) if isinstance(given, str) else absolute
    return section.model_copy(update=update)


# ------------------------------------------------------------ the origin of a value


def _variable(key: str, env: Mapping[str, str]) -> str | None:
    """Return the variable that sets a key, or the table of the key; None if there is none."""
    parts = key.upper().split(".")
    by_upper = {name.upper(): name for name in env}
    lengths = list(range(len(parts), 0, -1))
    if parts[:2] == ["AMQP", "USERS"] and parts[3:4] != ["PASSWORD"]:
        lengths = [length for length in lengths if length != 3]  # SEMQ_AMQP__USERS__NAME sets the password only
    names = (PREFIX + NESTED.join(parts[:length]) for length in lengths)
    return next((by_upper[name] for name in names if name in by_upper), None)


def _is_set_in(tables: object, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(tables, dict) or part not in tables:
            return False
        tables = tables[part]
    return True


def _where(key: str, path: Path | None, env: Mapping[str, str]) -> str:
    """Return the origin of a key: a variable, the file, or "environment"."""
    return _variable(key, env) or (str(path) if path else "environment")


# ------------------------------------------------------------ faults


def _fault(line: ErrorDetails, path: Path | None, env: Mapping[str, str]) -> ConfigFault:
    parts = [str(part) for part in line["loc"]]
    key = ".".join(parts)
    if line["type"] == "extra_forbidden" and any(fnmatchcase(key, pattern) for pattern in OF_DEFINITIONS):
        fault = "belongs to the definitions of the hub, not to its file: `semq definitions import`"
        return ConfigFault(_where(key, path, env), key, fault)
    if line["type"] == "extra_forbidden":
        return ConfigFault(_where(key, path, env), key, f"unknown key{_suggestion(parts)}")
    if line["type"] == "missing":
        return ConfigFault(_where(key, path, env), key, f"missing (or {PREFIX}{NESTED.join(parts).upper()})")
    if line["type"] == "model_type":
        return ConfigFault(_where(key, path, env), key, "must be a section, not a value")
    return ConfigFault(_where(key, path, env), key, line["msg"].removeprefix("Value error, "))


def _suggestion(parts: list[str]) -> str:
    """Return the end of a fault: a similar key, preferably of the section; empty if there is none."""
    section, name = ".".join(parts[:-1]), parts[-1]
    in_section = {key: f"{section}.{key}".lstrip(".") for key in keys_of(parts[:-1])}
    in_all_sections = {key[-1]: ".".join(key) for key in all_keys()}
    for paths in (in_section, in_all_sections):
        key = nearest(name, paths)
        if key is not None:
            return f"; did you mean {paths[key]}?"
    return ""


def _unknown_variable(name: str) -> ConfigFault:
    suffix = nearest(NESTED.join(_parts(name)), (NESTED.join(parts).upper() for parts in all_keys()))
    return ConfigFault(name, "", "unknown variable" + (f"; did you mean {PREFIX}{suffix}?" if suffix else ""))


def _parts(variable: str) -> list[str]:
    """Return the path of the key that a variable sets."""
    return variable[len(PREFIX) :].lower().split(NESTED)
