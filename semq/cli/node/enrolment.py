"""``semq node enroll``: the first certificate of a node, for a token from the hub's operator. The node need not run."""

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
        str, typer.Option("--fingerprint", metavar="SHA256", help="From `semq cert trust` at the hub.")
    ],
    token: Annotated[
        str,
        typer.Option(
            "--token", envvar="SEMQ_TOKEN", metavar="TOKEN", show_envvar=False,
            help="Made by `semq hub nodes token`; - reads standard input; default: SEMQ_TOKEN.",
        ),
    ],
    hub: Annotated[
        str | None, typer.Option("--hub", metavar="HOST:PORT", help="Address of the hub; by default hub.url.")
    ] = None,
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Make a key, have the hub sign it, and trust the hub's authority from now on."""
    from local_node.enrolment import HubAddress, enrol
    from semq.clock import SystemClock
    from semq.service.credentials.identity import ring_of

    settings = read_config(config, institution)
    where = HubAddress.of(hub or (settings.hub.url if settings.hub else ""), settings.tls.minimum)
    secret = sys.stdin.readline().strip() if token == "-" else token.strip()  # the sign for standard input
    ring = ring_of(settings)
    made = asyncio.run(enrol(ring, where, fingerprint, secret, SystemClock()))
    out = Output(as_json=json)
    if json:
        out.data({"node": str(made.node), "serial": made.serial_text, "not_after": utc_text(made.not_after)})
        return
    out.line(f"{made.node}  enrolled, certificate valid until {local_text(made.not_after)}, keys in {ring.folder}")
    if settings.hub is not None and not settings.hub.is_tls:
        out.notice(f'Set hub.url = "amqps://{where.host}:{where.port}" in {config}, and remove hub.password;')
        out.notice("then start the node, or restart it if it runs.")
    else:
        out.notice("Start the node. One that runs shows the new certificate within seconds: `semq node status`.")
