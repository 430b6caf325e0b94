"""Variables that Kubernetes sets in a container for the Services of its namespace (*service links*).

Those of a Service whose name begins with ``semq`` look like variables of SEMQ. ``load`` ignores them; nodes log their
names.
"""

import re
from collections.abc import Iterator, Mapping

HOST, PORT = "_SERVICE_HOST", "_SERVICE_PORT"
# What follows the name of a Service in a variable | its value
FORMS = (
    (r"_SERVICE_HOST", r"[0-9a-fA-F:.]+"),
    (r"_SERVICE_PORT(_[A-Z0-9_]+)?", r"\d+"),
    (r"_PORT(_\d+_(TCP|UDP|SCTP))?", r"(tcp|udp|sctp)://\S+:\d+"),
    (r"_PORT_\d+_(TCP|UDP|SCTP)_PROTO", r"tcp|udp|sctp"),
    (r"_PORT_\d+_(TCP|UDP|SCTP)_PORT", r"\d+"),
    (r"_PORT_\d+_(TCP|UDP|SCTP)_ADDR", r"[0-9a-fA-F:.]+"),
)


def service_links(variables: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that describe Services, sorted.

    A Service has at least its host and its port. A single variable of such a form may be a misspelt setting.
    """
    services = [name.removesuffix(HOST) for name in variables if name.endswith(HOST)]
    described = {name for service in services for name in _of_service(service, variables)}
    return sorted(described)


def _of_service(service: str, variables: Mapping[str, str]) -> Iterator[str]:
    if f"{service}{PORT}" not in variables:
        return
    for name, value in variables.items():
        rest = name.removeprefix(service)
        if rest != name and any(re.fullmatch(form, rest) and re.fullmatch(of, value) for form, of in FORMS):
            yield name
