"""A node's configuration: a TOML file and SEMQ_… variables in, one checked object out. Read by nodes and tools, not
by floors 0 to 3.

``sections`` lists what can be set, ``settings`` joins it, ``load`` reads it, ``errors`` says what is wrong with it.
"""

from semq.config.errors import ConfigInvalid, ConfigUnreadable, Fault
from semq.config.load import load
from semq.config.nearest import nearest
from semq.config.settings import Explained, Settings

__all__ = ["ConfigInvalid", "ConfigUnreadable", "Explained", "Fault", "Settings", "load", "nearest"]
