"""The installation of the demo: with a hub, with a hub of several instances, or without a hub."""

from pathlib import Path

from semq.installation.configuration import HUB, ApplicationLogin, InstallationPlan, NodePlace, Value

SENDER, RECEIVER = "10008", "56001"
# More receivers for a hub of several instances, so that each of its two stores is the home of institutions.
MORE_RECEIVERS = ("30021", "40032", "70003", "88001")
EXTRACTS, REPORTS = "extracts", "reports"  # folders of the reconciliation
COLLECTOR = "collector"  # user of 56001 who receives the signed extracts


def write_configuration(
    folder: Path,
    hour: int = 12,
    *,
    secure: bool = False,
    direct: bool = False,
    has_hub: bool = True,
    consoles: bool = False,
    shared_database: str = "",
) -> dict[str, NodePlace]:
    """Write the configuration files; return the places of the nodes by name.

    ``hour``: the current hour, UTC. ``secure``: TLS and certificates; unless ``direct``, also signed extracts sent as
    documents. ``direct``: the institutions have a direct link. ``consoles``: each node has a console.
    ``shared_database``: URL of the store of the second instance; if given, the hub has two instances and a standby.
    """
    cutoff = f"{(hour + 12) % 24:02d}:00"  # twelve hours from now: the demo is within one business date
    common_rows: dict[str, Value] = {
        "protocol.inquiry_s": 2.0,  # 15 by default: the demo is short
        "protocol.cleanup_s": 0.2,
        "extract.folder": EXTRACTS,
        "extract.cutoff": cutoff,
        "log.format": "json",
    }
    common_rows |= {"http.port": 0} if consoles else {}
    reconciliation: dict[str, Value] = {  # at the node that runs the reconciliation
        "reconcile.extracts": EXTRACTS,
        "reconcile.reports": REPORTS,
        "reconcile.cutoff": cutoff,
        "reconcile.in_flight_s": 5,  # 900 by default
    }
    local_rows: dict[str, Value] = {"hub.reconnect_s_min": 0.1, "hub.reconnect_s_max": 1.0}
    if secure and not direct:  # with direct links the hub is killed and cannot forward the extracts
        reconciliation["reconcile.trust"] = f"{HUB}/pki/trust.pem"
        local_rows |= {"extract.folder": "{name}-extracts", "extract.deliver_to": f"{RECEIVER}/{COLLECTOR}"}
    if not has_hub:
        common_rows |= reconciliation | {"reconcile.hub": False}
    institutions = (SENDER, RECEIVER, *(MORE_RECEIVERS if shared_database else ()))
    return InstallationPlan(
        dict(zip(institutions, institutions, strict=True)),
        ApplicationLogin("demo", "demo"),
        secure=secure,
        direct=(SENDER, RECEIVER) if direct else None,
        has_hub=has_hub,
        instances=2 if shared_database else 1,
        shared_database=shared_database,
        common_rows=common_rows,
        hub_rows=reconciliation,
        local_rows=local_rows,
    ).write(folder)
