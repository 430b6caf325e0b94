"""The repair list: which exceptions a node may mend by the ordinary protocol, signed, one file per node.

A deed is one of four safe ones: ``inquire`` (ask the one who must know), ``resend`` (offer it again; the receiver's
ledger drops a second copy), ``reack`` (acknowledge again), ``close`` (tell the application the outcome that the ledgers
agree on). The job writes the list; a node reads its own with ``read_repair`` and applies it through its engine, leaving
alone what has resolved itself.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from spark_reconcile.errors import BadExtract, NoSuchRun
from spark_reconcile.manifest import Sign, Signature, Verify, canonical
from spark_reconcile.storage import Place

INDEX = "index.json"
DEEDS = ("inquire", "resend", "reack", "close")
HUB = "hub"  #: whom a deed is asked of that is the platform's, whichever instance
_INDEX_MAX = 64 << 20
_LINE_MAX = 1 << 16


class Deed(msgspec.Struct, frozen=True):
    """One line of a repair list: what to do about a message, and the evidence on which it rests."""

    lk0: str
    deed: str
    side: str  #: as whom: sender, hub or receiver
    finding: str
    verdict: str
    sender: str
    receiver: str
    lk1: str | None = None
    reason: str | None = None
    born_at: int | None = None


class Index(NamedTuple):
    """What the repair lists of a run are: files by node with rows and hash."""

    business_date: str
    run: str
    fingerprint: str
    nodes: dict[str, dict[str, Any]]


def write_repair(
    exceptions: DataFrame, place: Place, staging: Place, index: Index, sign: Sign | None
) -> dict[str, int]:
    """Write the lists below ``place``; returns the number of deeds by name."""
    node = F.expr(f"CASE side WHEN 'sender' THEN sender WHEN 'receiver' THEN receiver ELSE '{HUB}' END")
    wanted = exceptions.where("deed IS NOT NULL").withColumn("node", node).where("node <> ''")
    columns = [*Deed.__struct_fields__, "node"]
    wanted.select(*columns).repartition("node").sortWithinPartitions("node", "lk0").write.partitionBy("node").json(
        staging.uri
    )
    deeds: dict[str, int] = {}
    for folder in staging.folders():
        name = folder.name.removeprefix("node=")
        target = place / f"{name}.jsonl"
        rows = 0
        with target.writer() as stream:
            for part in folder.files():
                for line in _lines(part):
                    stream.write(line + b"\n")
                    deed = json.loads(line)["deed"]
                    deeds[deed] = deeds.get(deed, 0) + 1
                    rows += 1
        index.nodes[name] = {"file": target.name, "rows": rows, "sha256": target.sha256()}
    content = index._asdict()
    signature = sign(canonical(content)) if sign is not None else None
    (place / INDEX).write(canonical({**content, "signature": signature}))
    return deeds


def read_repair(place: Place, node: str, verify: Verify | None = None, signer: str = HUB) -> list[Deed]:
    """The list of one node, checked against the signed index. Raises NoSuchRun, BadExtract.

    ``verify``: a signature of ``signer`` is required.
    """
    if not (place / INDEX).exists():
        raise NoSuchRun("This run has no repair list.", place=str(place))
    index = json.loads((place / INDEX).read(_INDEX_MAX))
    signature = index.pop("signature", None)
    if verify is not None:
        signed = msgspec.convert(signature, Signature) if signature else None
        if signed is None or not verify(signer, canonical(index), signed):
            raise BadExtract("The repair list is not signed by the hub.", state="BAD_SIGNATURE", place=str(place))
    entry = index["nodes"].get(node)
    if entry is None:
        return []
    file = place / str(entry["file"]).rpartition("/")[2]
    if file.size() < 0 or file.sha256() != entry["sha256"]:
        raise BadExtract("The repair list is not the one that its index describes.", state="ALTERED", file=file.name)
    deeds = [msgspec.json.decode(line, type=Deed) for line in _lines(file)]
    if any(deed.deed not in DEEDS for deed in deeds):
        raise BadExtract("The repair list asks for a deed that is not known.", state="UNKNOWN_SCHEMA", file=file.name)
    return deeds


def _lines(file: Place) -> Iterator[bytes]:
    """The lines of a text file, without their ends, read in blocks."""
    rest = b""
    with file.open() as stream:
        while block := stream.read(1 << 20):
            *whole, rest = (rest + block).split(b"\n")
            yield from (line for line in whole if line)
            if len(rest) > _LINE_MAX:
                raise BadExtract("A line of the repair list is too long.", state="ALTERED", file=file.name)
    if rest:
        yield rest
