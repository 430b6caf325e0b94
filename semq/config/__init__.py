"""A node's configuration, from a TOML file and SEMQ_… variables. Floors 0 to 3 of ARCHITECTURE.md do not import it.

| module                          | contents                                                                      |
|---------------------------------|-------------------------------------------------------------------------------|
| sections                        | the settings: sections of the file, with types, bounds, defaults, descriptions |
| cluster datagrams telemetry web | further sections                                                              |
| headers                         | headers of HTTP requests, in sections                                         |
| settings                        | all sections as one object, and the rules across sections                     |
| file                            | ``load``: reads file and environment, and reports all faults                  |
| institutions                    | files with several institutions (virtual servers)                             |
| reach                           | the URL of a node, derived from its configuration                             |
| service_links                   | variables of Kubernetes that look like settings                               |
| names, nearest                  | the names of all keys, and suggestions for misspelt ones                      |
| descriptions                    | the descriptions of keys                                                      |
| reference                       | all keys as rows: type, unit, default, reload, example, meaning              |
| reload_keys                     | the keys that a reload applies                                                |
| defaults                        | names and values that are needed without settings                             |
| errors                          | faults, and the errors that list them                                         |

Modules that need pydantic are imported on first use; ``reach`` does not need it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from semq.config.errors import ConfigFault, ConfigInvalid, ConfigUnreadable
from semq.config.nearest import nearest

if TYPE_CHECKING:
    from semq.config.file import load
    from semq.config.settings import ExplainedSetting, Settings

__all__ = ["ConfigFault", "ConfigInvalid", "ConfigUnreadable", "ExplainedSetting", "Settings", "load", "nearest"]

# Name | module that defines it
LAZY = {"load": "semq.config.file", "Settings": "semq.config.settings", "ExplainedSetting": "semq.config.settings"}


def __getattr__(name: str) -> object:
    """Import a name of LAZY on first use: pydantic takes longer to import than a request to a node."""
    if name not in LAZY:
        raise AttributeError(name)
    return getattr(import_module(LAZY[name]), name)
