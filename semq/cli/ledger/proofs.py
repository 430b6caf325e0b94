"""``semq verify``: check a proof of delivery (`semq msg prove`) offline. ``semq ledger verify``: check a ledger."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from semq.cli.errors import UnusableFile
from semq.cli.output.printer import Output
from semq.cli.output.values import counted
from semq.cli.session import JsonOption, Session, on_node
from semq.errors import BadInput
from semq.moments import local_text, utc_text

group = typer.Typer()


class NoTrust(BadInput):
    """Neither --trust nor --any-authority was given."""

    code = "SEMQ-2220"
    remedy = "Give --trust FILE with the authority's certificate (`semq cert trust --pem`), or --any-authority."


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File written by `semq msg prove`.")],
    document: Annotated[
        Path | None, typer.Option("--document", metavar="FILE", help="Check that this is the delivered document.")
    ] = None,
    trust: Annotated[
        Path | None, typer.Option("--trust", metavar="FILE", help="PEM file of the trusted authorities.")
    ] = None,
    any_authority: Annotated[
        bool, typer.Option("--any-authority", help="Do not check by which authority the certificate was issued.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Verify a proof of delivery, offline: semq verify proof.json --document order.xml --trust authority.pem"""
    if trust is None and not any_authority:
        raise NoTrust(file=str(file))
    # Imported here, because `semq ledger verify` does not need cryptography.
    from semq.pki import TrustStore, read_certificate
    from semq.seal.errors import ProofWrong
    from semq.seal.proof import check_document, check_proof, read_proof
    from semq.service.credentials.keyring import split
    from semq.umx_t.address import parse_address

    proof = read_proof(_read(file))
    pem, chain = split(proof.certificates[0])
    certificate = read_certificate(pem.encode())
    if certificate.node != parse_address(proof.receiver):
        raise ProofWrong("The certificate is not the receiver's.", receiver=proof.receiver, found=str(certificate.node))
    check_proof(proof, certificate.public_key)
    stated = datetime.fromtimestamp(proof.at / 1000, UTC)
    if trust is not None:
        # At the time of the signature: a proof stays valid after the certificate ends.
        TrustStore.read(trust).verify(certificate, stated, node=certificate.node, chain=chain)
    if document is not None:
        check_document(proof, _read(document))
    facts = {
        "proved": True, "receiver": proof.receiver, "sender": proof.sender, "lk0": proof.lk0, "status": proof.status,
        "stated_at": utc_text(stated, exact=True), "document": document is not None, "sealed": proof.salt is not None,
        "certificate": certificate.fingerprint, "authority_checked": trust is not None,
    }  # fmt: skip
    out = Output(as_json=json)
    if json:
        out.data(facts)
    else:
        out.line(f"{proof.receiver} stated at {local_text(stated)} that it had recorded {proof.lk0}.")
        if document is not None:
            out.line("The document is the delivered one.")
        else:
            out.line("No document was compared: give --document FILE.")


@group.command("verify")
@on_node
async def verify_ledger(
    session: Session,
    since: Annotated[
        str | None, typer.Option("--from", metavar="DATE", help="First day (UTC); default: the oldest in the ledger.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="DATE", help="Last day (UTC); default: the newest.")
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER:HASH",
            help="End of the chain that an earlier check printed: the lines up to it must be unchanged.",
        ),
    ] = None,
) -> None:
    """Check the node's ledger against its hash chain, up to the first line that was changed, removed, added or moved.

    Lines missing at the end are found only if they were removed while the node was running, or with --head.
    """
    days: dict[str, object] = {"from": since, "to": until}  # `from` is a keyword of Python
    answer = await session.ask("ledger.verify", head=head, **days)
    dates = f" of the days {answer['from']} to {answer['to']} (UTC)" if answer.get("to") else ""
    lines = counted(answer["lines"], "line")
    session.out.result(answer, f"{lines}{dates}: unchanged; the chain ends with", answer["head"])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnusableFile(file=str(path), fault=error.strerror) from error
