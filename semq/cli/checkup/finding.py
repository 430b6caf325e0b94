"""The finding of one check."""

from msgspec import Struct

from semq.errors import SemqError
from semq.service.monitoring.health import FAILING as FAILING
from semq.service.monitoring.health import OK as OK
from semq.service.monitoring.health import WARNING as WARNING


class Finding(Struct, frozen=True):
    """One subject with its verdict."""

    check: str  #: subject, for instance "disk"
    verdict: str  #: ok; warning (works, but needs attention); failing (does not work, or may lose data)
    detail: str = ""
    advice: str = ""  #: next step for the operator; may be empty


def failing(check: str, error: SemqError) -> Finding:
    """Return the finding ``failing`` for an error."""
    return Finding(check, FAILING, " ".join(str(error).split()), error.remedy)
