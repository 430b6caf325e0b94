"""Errors of a configuration, for which the command line ends with status 78."""

from msgspec import Struct

from semq.errors import Misconfigured


class ConfigFault(Struct, frozen=True):
    """One fault of a configuration."""

    where: str  #: file or environment variable
    key: str  #: empty if the fault does not concern a single key
    text: str  #: description without the value, which may be a secret

    def __str__(self) -> str:
        return f"{self.where}: {self.key}: {self.text}" if self.key else f"{self.where}: {self.text}"


class ConfigUnreadable(Misconfigured):
    """The configuration file cannot be read."""

    code = "SEMQ-2010"
    remedy = "Check the path, its permissions and the syntax (TOML); `semq node init` writes a complete file."


class ConfigInvalid(Misconfigured):
    """The configuration has faults; all are listed, without values."""

    code = "SEMQ-2011"
    remedy = "Correct all faults; `semq config check` checks the file without starting a node."

    def __init__(self, faults: list[ConfigFault]) -> None:
        self.faults = faults
        head = "The configuration has a fault:" if len(faults) == 1 else f"The configuration has {len(faults)} faults:"
        super().__init__("\n".join([head, *(f"  {fault}" for fault in faults)]))
