"""A node's configuration: a TOML file and SEMQ_… variables in, one checked object out. Read by nodes and tools, not
by floors 0 to 3.

``sections`` lists what can be set, ``settings`` joins it, ``file`` reads it, ``errors`` says what is wrong with it.

Imported when they are used: commands that ask a running node need none of them (`reach`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from semq.config.errors import ConfigInvalid, ConfigUnreadable, Fault
from semq.config.nearest import nearest

if TYPE_CHECKING:
    from semq.config.file import load
    from semq.config.settings import Explained, Settings

__all__ = ["ConfigInvalid", "ConfigUnreadable", "Explained", "Fault", "Settings", "load", "nearest"]


WHERE = {"load": "semq.config.file", "Settings": "semq.config.settings", "Explained": "semq.config.settings"}


def __getattr__(name: str) -> Any:
    """What checks a whole configuration brings pydantic, which takes longer to import than a command to ask a node."""
    if name not in WHERE:
        raise AttributeError(name)
    return getattr(import_module(WHERE[name]), name)
