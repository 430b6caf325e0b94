"""``semq cert``: certificates of nodes, and the authorities that they trust.

``request`` and ``install`` work on the files of a node, for a certificate of another authority than the hub's.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from semq.cli.errors import UnusableFile
from semq.cli.output.printer import Output
from semq.cli.output.values import local_time, node_name
from semq.cli.session import InstitutionOption, JsonOption, Session, on_node, read_config

group = typer.Typer()
FileOption = Annotated[Path, typer.Option("--config", metavar="FILE", help="The node's TOML file.")]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="Reason, stored with the certificate.")]


@group.command("list")
@on_node
async def list_(session: Session) -> None:
    """List certificates: at a hub, all that it has issued; at an institution's node, those in its slots."""
    rows = await session.ask("cert.list")
    if rows and "slot" in rows[0]:
        slots = ((row["slot"], row["key_id"][:12], row["serial"], row["days_left"]) for row in rows)
        session.out.rows(rows, "slot, key, serial, >days left", slots)
    else:
        issued = ((node_name(row["node"]), row["state"], row["days_left"], row["serial"], row["why"]) for row in rows)
        session.out.rows(rows, "institution, state, >days left, serial, why", issued)


@group.command()
@on_node
async def show(session: Session) -> None:
    """Show the active certificate of the node and the time of its renewal."""
    session.out.facts(await session.ask("cert.show"))


@group.command()
@on_node
async def trust(
    session: Session,
    pem: Annotated[bool, typer.Option("--pem", help="Print the certificates of the authorities in PEM.")] = False,
    add: Annotated[Path | None, typer.Option(metavar="FILE", help="Trust the authorities in a PEM file, too.")] = None,
    remove: Annotated[
        str | None, typer.Option(metavar="SHA256", help="Stop trusting the authority with this fingerprint.")
    ] = None,
) -> None:
    """List the fingerprints of the authorities that the node trusts; add or remove authorities.

    Enrolment at a hub needs the fingerprint of the hub's authority. Links reconnect after a change.
    """
    if add is not None:
        try:
            await session.ask_once("trust.add", pem=add.read_text("ascii"))
        except (OSError, UnicodeDecodeError) as error:
            raise UnusableFile(file=str(add), fault=str(error)) from error
    if remove is not None:
        await session.ask_once("trust.remove", fingerprint=remove)
    answer = await session.ask("trust.list")
    if pem and not session.out.as_json:
        session.out.text(answer["pem"].rstrip())
    else:
        session.out.result(answer, *(f"sha256:{fingerprint}" for fingerprint in answer["fingerprints"]))


@group.command()
@on_node
async def renew(session: Session) -> None:
    """Renew the certificate of the node now, even if it is not due."""
    answer = await session.ask_once("cert.renew")
    session.out.result(answer, f"{answer['node']}  renewed, valid until {local_time(answer['not_after'])}")


@group.command()
@on_node
async def rotate(session: Session) -> None:
    """Activate the certificate in slot next. The active one moves to slot previous."""
    answer = await session.ask_once("cert.rotate")
    session.out.result(
        answer,
        f"{answer['node']}  active now: serial {answer['serial']}, valid until {local_time(answer['not_after'])}",
    )


@group.command()
@on_node
async def revoke(
    session: Session,
    which: Annotated[
        str, typer.Argument(metavar="NODE|SERIAL", help="Institution, or serial number of a certificate.")
    ],
    why: Why,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask at a terminal.")] = False,
) -> None:
    """Revoke certificates that a hub has issued. Links that use them end immediately."""
    for line in await _ends(session, which):
        session.out.notice(line)
    if not yes and not session.out.as_json and sys.stdin.isatty():
        typer.confirm("Revoke? The institution then needs a token and `semq node enroll`.", abort=True, err=True)
    answer = await session.ask_once("cert.revoke", which=which, why=why)
    session.out.result(answer, f"revoked: {' '.join(answer['revoked']) or 'none, because all were revoked before'}")


async def _ends(session: Session, which: str) -> list[str]:
    """Return lines about the valid certificates that a revocation ends, and their institutions."""
    names = (which, f"1.{which}")
    rows = [row for row in await session.ask("cert.list") if row.get("serial") in names or row.get("node") in names]
    valid = [row for row in rows if row.get("state") == "valid"]
    lines = [f"! serial {row['serial']} of {row['node']}, valid until {local_time(row['not_after'])}" for row in valid]
    for node in await session.ask("nodes.list") if valid else ():
        if node["node"] in {row["node"] for row in valid}:
            link = "online: its link ends now" if node["online"] else "not online"
            lines.append(f"! {node['node']} is {link}; stored for it at the hub: {node['held']}")
    return lines


@group.command("needs-renewal")
@on_node
async def needs_renewal(session: Session) -> None:
    """Show whether the node's certificate is due for renewal; exit status 1 if so."""
    answer = await session.ask("cert.show")
    facts = {name: answer[name] for name in ("state", "days_left", "renew_at")}
    renewal = local_time(answer["renew_at"])
    session.out.result(
        facts, f"{answer['node']}  {answer['state']}, {answer['days_left']} days left, renewal at {renewal}"
    )
    if answer["state"] != "ok":
        raise typer.Exit(1)


# ------------------------------------------------------------------------------ certificates of another authority


@group.command()
def request(
    config: FileOption,
    name: Annotated[
        list[str] | None, typer.Option("--name", metavar="HOST", help="Host name for the certificate. May be repeated.")
    ] = None,
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:
    """Create a key in slot next and print a request (PKCS#10) for another authority. A repetition uses the same key."""
    from semq.pki.authority import new_request
    from semq.service.credentials.identity import ring_of

    ring = ring_of(read_config(config, institution))
    pem = new_request(ring.next_key(), ring.node, tuple(name or ())).decode("ascii")
    out = Output(as_json=json)
    out.data({"node": str(ring.node), "request": pem}) if json else out.text(pem.rstrip())


@group.command()
def install(
    config: FileOption,
    certificate: Annotated[Path, typer.Argument(metavar="FILE", help="PEM file of the certificate and its chain.")],
    institution: InstitutionOption = None,
    json: JsonOption = False,
) -> None:
    """Install a certificate of another authority in slot next, or in slot active if the node has no certificate yet."""
    from semq.clock import SystemClock
    from semq.service.credentials.identity import ring_of, trust_of

    settings, now = read_config(config, institution), SystemClock().wall()
    ring = ring_of(settings)
    try:
        pem = certificate.read_bytes()
    except OSError as error:
        raise UnusableFile(file=str(certificate), fault=error.strerror) from error
    installed = ring.store_certificate(pem, trust_of(settings, ring), now)
    slot, advice = "next", "; `semq cert rotate` activates it"
    if not ring.is_enrolled:
        ring.rotate(now)
        slot, advice = "active", ""
    facts: dict[str, object] = {"node": str(installed.node), "slot": slot, "serial": installed.serial_text}
    Output(as_json=json).result(facts, f"{installed.node}  in slot {slot}{advice}")
