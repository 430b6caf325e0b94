"""``semq node enroll``: get a certificate for a node, which need not run."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from semq.cli.node.administration import group
from semq.cli.output.printer import Output
from semq.cli.session import InstitutionOption, JsonOption, read_config
from semq.moments import local_text, utc_text


@group.command()
def enroll(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The node's TOML file.")],
    fingerprint: Annotated[
        str,
        typer.Option(
            "--fingerprint",
            metavar="SHA256",
            help="Fingerprint of the hub's authority, as `semq cert trust` prints it at the hub.",
        ),
    ],
    token: Annotated[
        str,
        typer.Option(
            "--token", envvar="SEMQ_TOKEN", metavar="TOKEN", show_envvar=False,
            help="Token of `semq hub nodes token`; - reads standard input; default: SEMQ_TOKEN.",
        ),
    ],
    hub: Annotated[
        str | None, typer.Option("--hub", metavar="HOST:PORT", help="Address of the hub; default: that of hub.url.")
    ] = None,
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Create a key, get a certificate for it from the hub, and trust the hub's authority from then on."""
    from local_node.enrolment import HubAddress, enrol
    from semq.clock import SystemClock
    from semq.service.credentials.identity import ring_of

    settings = read_config(config, institution)
    address = HubAddress.of(hub or (settings.hub.url if settings.hub else ""), settings.tls.minimum)
    secret = sys.stdin.readline().strip() if token == "-" else token.strip()
    ring = ring_of(settings)
    certificate = asyncio.run(enrol(ring, address, fingerprint, secret, SystemClock()))
    out = Output(as_json=json)
    if json:
        out.data(
            {
                "node": str(certificate.node),
                "serial": certificate.serial_text,
                "not_after": utc_text(certificate.not_after),
            }
        )
        return
    out.line(f"{certificate.node}  enrolled, valid until {local_text(certificate.not_after)}, keys in {ring.folder}")
    if settings.hub is not None and not settings.hub.is_tls:
        out.notice(f'Set hub.url = "amqps://{address.host}:{address.port}" in {config}, and remove hub.password;')
        out.notice("then start the node, or restart it if it runs.")
    else:
        out.notice(
            "Start the node. A running node uses the new certificate within seconds: `semq node status` shows it."
        )
