"""The repair lists: exceptions that nodes may repair through the protocol, a file per node, with an index.

There are four safe deeds: ``inquire`` (ask the responsible party), ``resend`` (send the message again; the receiver
drops a second copy), ``reack`` (acknowledge again), ``close`` (the sender deletes its row of an ended message).
``submit`` names a document that its receiver has lost: only the sender's application can submit it again. A node
leaves a deed that it does not know, row by row. The index is signed if the hub is enrolled.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import msgspec

from spark_reconcile.errors import BadRepairList, NoSuchRun
from spark_reconcile.extracts.manifest import Sign, Signature, Verify, canonical
from spark_reconcile.storage import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INDEX = "index.json"
DEEDS = ("inquire", "resend", "reack", "close", "submit")
HUB = "hub"  #: name of the list for the hub, whatever its address; all instances of a hub use the same list
_INDEX_MAX = 64 << 20
_LINE_MAX = 1 << 16


class RepairLine(msgspec.Struct, frozen=True):
    """One line of a repair list: a deed for a message, with its evidence."""

    lk0: str
    deed: str
    side: str  #: the side that acts: sender, hub or receiver
    finding: str
    verdict: str
    sender: str
    receiver: str
    lk1: str | None = None
    reason: str | None = None
    born_at: int | None = None


class RepairIndex(NamedTuple):
    """The index of a run's repair lists."""

    business_date: str
    run: str
    fingerprint: str
    #: by node: ``file``, ``rows``, ``sha256`` of its list
    nodes: dict[str, dict[str, object]]


def write_lists(exceptions: "DataFrame", place: Place, staging: Place, index: RepairIndex) -> dict[str, int]:
    """Write the lists of all nodes below ``place`` and add them to ``index``; return the number of messages by deed.

    ``staging``: a folder for Spark's files, which the caller removes.
    """
    from pyspark.sql import functions as F  # noqa: N812  # not at import: nodes read lists without Spark

    node = f"CASE side WHEN 'sender' THEN sender WHEN 'receiver' THEN receiver ELSE '{HUB}' END"
    repairable = exceptions.where("deed IS NOT NULL").withColumn("list", F.expr(node)).where("list <> ''")
    columns = [*RepairLine.__struct_fields__, "list"]
    repairable.select(*columns).repartition("list").sortWithinPartitions("list", "lk0").write.partitionBy("list").json(
        staging.uri
    )
    deeds: dict[str, int] = {}
    for folder in staging.folders():
        name = unquote(folder.name.removeprefix("list="))
        index.nodes[name] = _written(place / f"{name}.jsonl", folder.files(), deeds)
    return deeds


def _written(target: Place, parts: Iterable[Place], deeds: dict[str, int]) -> dict[str, object]:
    """Write a list from Spark's files, and count its deeds; return its entry of the index."""
    rows = 0
    with target.writer() as stream:
        for line in (line for part in parts for line in _lines(part)):
            stream.write(line + b"\n")
            deed = json.loads(line)["deed"]
            deeds[deed] = deeds.get(deed, 0) + 1
            rows += 1
    return {"file": target.name, "rows": rows, "sha256": target.sha256()}


def write_index(place: Place, index: RepairIndex, sign: Sign | None) -> None:
    """Write the index, also if there are no lists: it shows a node without a list that there is nothing to do."""
    content = index._asdict()
    signature = sign(canonical(content)) if sign is not None else None
    (place / INDEX).write(canonical({**content, "signature": signature}))


def read_repair(place: Place, node: str, verify: Verify | None = None) -> list[RepairLine]:
    """Read the list of one node and check it against the index; empty if there is nothing to do.

    A line may have a deed of a later version. With ``verify``, the index must have a signature of the hub. Raises
    NoSuchRun, BadRepairList.
    """
    if not (place / INDEX).exists():
        raise NoSuchRun("There is no repair list here.", place=str(place))
    entry = _entry(place, node, verify)
    if entry is None:
        return []
    lines = _read(place, entry)
    if node != HUB and any(node != {"sender": line.sender, "receiver": line.receiver}.get(line.side) for line in lines):
        raise _bad("The list has documents of other nodes.", "OTHER_NODE", place / str(entry.get("file")))
    return lines


def _read(place: Place, entry: Mapping[str, object]) -> list[RepairLine]:
    file = place / str(entry.get("file")).rpartition("/")[2]
    if file.size() < 0:
        raise _bad("The list of this node is missing beside its index.", "MISSING", file)
    if file.sha256() != entry.get("sha256"):
        raise _bad("The list does not match its index.", "ALTERED", file)
    try:
        return [msgspec.json.decode(line, type=RepairLine) for line in _lines(file)]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _bad("The list cannot be read.", "UNKNOWN_SCHEMA", file) from error


def _entry(place: Place, node: str, verify: Verify | None) -> Mapping[str, object] | None:
    """Check the index and return its entry for a node; None if the index has no entry for it."""
    try:
        index = msgspec.json.decode((place / INDEX).read(_INDEX_MAX), type=dict[str, object])
        signature = msgspec.convert(index.pop("signature", None), Signature | None)
        nodes = msgspec.convert(index.get("nodes"), dict[str, dict[str, object]])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _bad("The index of the repair lists cannot be read.", "UNKNOWN_SCHEMA", place / INDEX) from error
    if verify is not None and signature is None:
        raise _bad("The repair list is not signed.", "UNSIGNED", place / INDEX)
    if verify is not None and signature is not None and not verify(HUB, canonical(index), signature, None):
        raise _bad("The repair list is not signed by the hub of this node.", "BAD_SIGNATURE", place / INDEX)
    return nodes.get(node)


def _bad(message: str, state: str, file: Place) -> BadRepairList:
    return BadRepairList(message, state=state, file=str(file))


def _lines(file: Place) -> Iterator[bytes]:
    """Yield the non-empty lines of a text file. Raises BadRepairList for a line above ``_LINE_MAX``."""
    incomplete = b""
    with file.open() as stream:
        while block := stream.read(1 << 20):
            *lines, incomplete = (incomplete + block).split(b"\n")
            if any(len(line) > _LINE_MAX for line in (*lines, incomplete)):
                raise _bad("A line of the list is too long.", "ALTERED", file)
            yield from (line for line in lines if line)
    if incomplete:
        yield incomplete
