"""Reading a configuration: a TOML file, overridden by SEMQ_… environment variables, then all checks together.

``load`` is called by the nodes and by the command line. A variable names the path of a key with two underscores
between its parts: SEMQ_AMQP__PORT, SEMQ_NODES__10008__PASSWORD. User-defined names (users, nodes) from the environment
become lower case, lists are JSON, and empty variables count as not set.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
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
from semq.config.names import all_keys, leads_somewhere, names_in
from semq.config.nearest import nearest
from semq.config.sections import FolderSection, Section
from semq.config.settings import Settings, cross_faults

# variables with the prefix that are not settings: those of the command line, and the variable that
# tls.passphrase_variable names
NOT_SETTINGS = frozenset({"SEMQ_CONFIG", "SEMQ_KEY_PASSPHRASE", "SEMQ_BODIES_KEY", "SEMQ_TOKEN"})
# section | keys whose values are paths, relative to the file
PATHS = (
    ("tls", ("dir", "trust", "passphrase_file")),
    ("cluster", ("trust",)),
    ("extract", ("folder", "salt_file")),
    ("secrecy", ("bodies_key_file",)),
    ("http", ("certificate", "key", "client_authorities")),
    ("telemetry", ("trust",)),
)


def load(path: Path | None, env: Mapping[str, str], institution: str | None = None) -> Settings:
    """Load the settings of a node from a TOML file (None: no file) and an environment.

    ``institution`` chooses one of a file with several (``institutions``). ``node.data_dir`` becomes absolute: relative
    to the file, or to the working directory if the environment set it.

    Raises ConfigUnreadable(file) if the file does not exist or is not TOML, ConfigInvalid(faults) with all faults.
    """
    written = read_toml(path)
    ours = all_ours = {name: value for name, value in env.items() if name.upper().startswith(PREFIX)}
    certificate, place = None, path
    if institution is not None and path is not None:
        place = Path(f'{path} [institutions."{institution}"]')
        process = server_settings(written, path)
        certificate = process.server.certificate
        written, ours = institution_tables(written, institution, path, process), environment_of(ours, institution)
    elif is_virtual(written):
        raise ConfigInvalid([ConfigFault(str(path), "", "has several institutions: choose one with --institution ID")])
    env = {name: value for name, value in ours.items() if leads_somewhere(_parts(name))}
    written = _with_long_users(written)
    settings = None
    try:
        settings = _merge(written, env)
    except ValidationError as error:
        faults = [_fault(line, place, env) for line in error.errors()]
    except SettingsError as error:  # a list or table in the environment that is not JSON
        faults = [ConfigFault("environment", "", str(error))]
    else:
        faults = [ConfigFault(_where(key, place, env), key, text) for key, text in cross_faults(settings)]
    faults += [_unknown_variable(name) for name in sorted(ours.keys() - env.keys()) if name.upper() not in NOT_SETTINGS]
    if faults or settings is None:
        raise ConfigInvalid(faults)
    settings = _finish(settings, path, env, written, all_ours)
    settings.choose(institution, certificate)
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


class _GivenEnvironment(EnvSettingsSource):
    """The environment passed to ``load``, instead of that of the process."""

    def __init__(self, settings: type[BaseSettings], env: Mapping[str, str]) -> None:
        self._given = env
        super().__init__(settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {_long_name(name.lower()): value for name, value in self._given.items() if value}

    def __call__(self) -> dict[str, Any]:
        return _with_long_users(super().__call__())


def _long_name(variable: str) -> str:
    """The variable of a user's password, taken as text even if it looks like JSON."""
    is_short = _parts(variable)[:2] == ["amqp", "users"] and len(_parts(variable)) == 3
    return f"{variable}{NESTED}password" if is_short else variable


def _with_long_users(given: dict[str, Any]) -> dict[str, Any]:
    """Replace ``name = "password"`` by a table, so that file and environment can each set a part of one user.

    A password from the environment then removes no restriction set in the file.
    """
    amqp = given.get("amqp")
    if not isinstance(amqp, dict) or not isinstance(users := amqp.get("users"), dict):
        return given
    long = {name: user if isinstance(user, dict) else {"password": user} for name, user in users.items()}
    return {**given, "amqp": {**amqp, "users": long}}


def _merge(written: dict[str, Any], env: Mapping[str, str]) -> Settings:
    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *_: PydanticBaseSettingsSource, **__: PydanticBaseSettingsSource
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return _GivenEnvironment(settings_cls, env), InitSettingsSource(settings_cls, init_kwargs=written)

    return Loaded()  # type: ignore[call-arg] # the sources give the fields


def _finish(
    settings: Settings,
    path: Path | None,
    env: Mapping[str, str],
    written: dict[str, Any],
    ours: Mapping[str, str],
) -> Settings:
    base = path.parent if path and _variable("node.data_dir", env) is None else Path()
    data_dir = _resolved(base, settings.data_dir, "node.data_dir", path, env)
    node = settings.node.model_copy(update={"data_dir": data_dir})
    sections = ((name, getattr(settings, name), keys) for name, keys in PATHS)
    absolute = {name: _absolute(one, name, keys, path, env) for name, one, keys in sections if one is not None}
    folders = [
        one.model_copy(update={"path": _resolved(path.parent if path else Path(), one.path, "folders.path", path, env)})
        for one in settings.folders
    ]
    nested = [ConfigFault(_where(key, path, env), key, text) for key, text in _nested_roots(folders)]
    if nested:
        raise ConfigInvalid(nested)
    webhooks = [
        one.model_copy(update={"trust": _resolved(base, one.trust, "webhooks.trust", path, env)}) if one.trust else one
        for one in settings.webhooks
    ]
    settings = settings.model_copy(update={"node": node, "folders": folders, "webhooks": webhooks, **absolute})
    given = [key for key in settings.values() if _variable(key, env) or _stands_in(written, key)]
    settings.remember({key: _where(key, path, env) for key in given}, path.resolve() if path else None, ours)
    return settings


def _nested_roots(folders: Sequence[FolderSection]) -> Iterator[tuple[str, str]]:
    """Find roots that lie in another, where a document of one would be a file of the other."""
    real = [folder.path.resolve() for folder in folders]
    for number, root in enumerate(real):
        for other in real[:number]:
            if root.is_relative_to(other) or other.is_relative_to(root):
                outer, inner = sorted((root, other), key=lambda one: len(one.parts))
                yield f"folders.{number}.path", f"{inner} lies in {outer}; give each root a place of its own"


def _resolved(base: Path, given: Path | str, key: str, path: Path | None, env: Mapping[str, str]) -> Path:
    """Make a path independent of the working directory. Raises ConfigInvalid for an impossible path."""
    try:
        return (base / given).resolve()
    except (ValueError, RuntimeError, OSError) as error:  # a NUL character, a loop of links
        raise ConfigInvalid([ConfigFault(_where(key, path, env), key, f"not a valid path: {error}")]) from error


def _absolute(section: Section, name: str, keys: tuple[str, ...], path: Path | None, env: Mapping[str, str]) -> Section:
    """Make all paths independent of the working directory: relative paths refer to the place that set them."""
    update: dict[str, Any] = {}
    for key in keys:
        given: Path | str | None = getattr(section, key)
        if given and "://" not in str(given):
            base = path.parent if path and _variable(f"{name}.{key}", env) is None else Path()
            whole = _resolved(base, given, f"{name}.{key}", path, env)
            update[key] = str(whole) if isinstance(given, str) else whole
    return section.model_copy(update=update)


# ------------------------------------------------------------ the origin of a value


def _variable(key: str, env: Mapping[str, str]) -> str | None:
    """Return the environment variable that set a key or a table around it, or None."""
    parts = key.upper().split(".")
    by_upper = {name.upper(): name for name, value in env.items() if value}
    lengths = list(range(len(parts), 0, -1))
    if parts[:2] == ["AMQP", "USERS"] and parts[3:4] != ["PASSWORD"]:
        lengths = [length for length in lengths if length != 3]  # the variable of a user sets its password only
    names = (PREFIX + NESTED.join(parts[:length]) for length in lengths)
    return next((by_upper[name] for name in names if name in by_upper), None)


def _stands_in(written: Any, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(written, dict) or part not in written:
            return False
        written = written[part]
    return True


def _where(key: str, path: Path | None, env: Mapping[str, str]) -> str:
    return _variable(key, env) or (str(path) if path else "environment")


# ------------------------------------------------------------ faults


def _fault(line: Any, path: Path | None, env: Mapping[str, str]) -> ConfigFault:
    parts = [str(part) for part in line["loc"]]
    key = ".".join(parts)
    if line["type"] == "extra_forbidden":
        return ConfigFault(_where(key, path, env), key, f"unknown key{_guess(parts)}")
    if line["type"] == "missing":
        return ConfigFault(_where(key, path, env), key, f"missing (or {PREFIX}{NESTED.join(parts).upper()})")
    if line["type"] == "model_type":
        return ConfigFault(_where(key, path, env), key, "a section belongs here, not a value")
    return ConfigFault(_where(key, path, env), key, line["msg"].removeprefix("Value error, "))


def _guess(parts: list[str]) -> str:
    """Suggest a similar key of the same section, else of another section."""
    section, name = ".".join(parts[:-1]), parts[-1]
    here = {known: f"{section}.{known}".lstrip(".") for known in names_in(parts[:-1])}
    elsewhere = {known[-1]: ".".join(known) for known in all_keys()}
    for places in (here, elsewhere):
        found = nearest(name, places)
        if found:
            return f"; did you mean {places[found]}?"
    return ""


def _unknown_variable(name: str) -> ConfigFault:
    known = {NESTED.join(parts).upper(): PREFIX + NESTED.join(parts).upper() for parts in all_keys()}
    found = nearest(NESTED.join(_parts(name)), known)
    return ConfigFault(name, "", "unknown variable" + (f"; did you mean {known[found]}?" if found else ""))


def _parts(variable: str) -> list[str]:
    return variable[len(PREFIX) :].lower().split(NESTED)
