"""A node's configuration, from a TOML file and SEMQ_… variables. Used by nodes and tools, not by floors 0 to 3.

``sections`` defines the settings, ``settings`` combines and checks them, ``file`` reads them. ``reach`` derives the URL
of a node, ``defaults`` has names and values that need no settings.

These modules are imported on first use: commands that only ask a running node need none of them (``reach``).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from semq.config.errors import ConfigFault, ConfigInvalid, ConfigUnreadable
from semq.config.nearest import nearest

if TYPE_CHECKING:
    from semq.config.file import load
    from semq.config.settings import Explained, Settings

__all__ = ["ConfigFault", "ConfigInvalid", "ConfigUnreadable", "Explained", "Settings", "load", "nearest"]


WHERE = {"load": "semq.config.file", "Settings": "semq.config.settings", "Explained": "semq.config.settings"}


def __getattr__(name: str) -> Any:
    """Import on first use: pydantic takes longer to import than a command needs to ask a node."""
    if name not in WHERE:
        raise AttributeError(name)
    return getattr(import_module(WHERE[name]), name)
