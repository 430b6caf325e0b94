"""One thing that was looked at, how it is, and what to do."""

from dataclasses import dataclass

from semq.errors import SemqError
from semq.service.health import FAILING as FAILING
from semq.service.health import OK as OK
from semq.service.health import WARNING as WARNING


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of what the doctor says."""

    check: str
    verdict: str  #: ok, warning (it works, and somebody should look), failing (it does not work, or may lose something)
    detail: str = ""
    advice: str = ""


def failing(check: str, error: SemqError) -> Finding:
    """What an error says, as a finding."""
    return Finding(check, FAILING, " ".join(str(error).split()), error.remedy)
