"""``./run bench secrecy``: what certificates and seals cost: online without them, with signed receipts, sealed.

    ./run bench secrecy [--messages N] [--rounds N] [--size BYTES] [--json]

Two networks on one machine, one after the other: in the first no node has a certificate; in the second both
institutions have one, so that receipts are signed, and rounds in clear and sealed take turns, so that whatever else the
machine does meets both alike. Rates and the processor time of the three nodes are medians over the rounds. Links are
plain in all of them: TLS is another question.
"""

import argparse
import asyncio
import json
import os
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from bench import phases
from bench.network import NODE_IDS, A, B, Network
from semq.clock import SystemClock
from semq.pki.authority import create_authority
from semq.pki.slots import KeyRing
from semq.pki.trust import TrustStore
from semq.store.files import write_safely
from semq.umx_t.address import Address, NodeType

WARM_UP = 500
SUMMARY = """
{messages} documents of {size} octets a round, {rounds} rounds, online from submit at A to SS_ACK2 at A
  no certificates   {plain_per_s:>6}/s  {plain_us:>6} µs of processor time a document in the three nodes
  signed receipts   {signed_per_s:>6}/s  {signed_us:>6} µs  {signed_ratio:.2f} of the rate without certificates
  sealed as well    {sealed_per_s:>6}/s  {sealed_us:>6} µs  {sealed_ratio:.2f} of the rate in clear on the same network
"""


def main(argv: list[str]) -> int:
    """Run what the arguments ask for; the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="./run bench secrecy", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--messages", type=int, default=5000, metavar="N", help="documents in a round (5000)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds of each kind (5)")
    parser.add_argument("--size", type=int, default=1024, metavar="BYTES", help="octets in a document (1024)")
    parser.add_argument("--json", action="store_true", help="end with one JSON object instead of a summary")
    given = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="semq-bench-"))
    try:
        found = uvloop.run(run(folder, given.messages, given.rounds, given.size))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(found) if given.json else SUMMARY.format(**found), flush=True)
    return 0 if not any(found[fault] for fault in ("repeated", "damaged", "missing")) else 1


async def run(folder: Path, messages: int, rounds: int, size: int) -> dict[str, Any]:
    """Both networks; the figures."""
    found: dict[str, Any] = {"messages": messages, "rounds": rounds, "size": size}
    account = {"repeated": 0, "damaged": 0, "missing": 0}
    rates: dict[str, list[int]] = {"plain": [], "signed": [], "sealed": []}
    times: dict[str, list[int]] = {"plain": [], "signed": [], "sealed": []}
    for name, kinds in (("plain", ("plain",)), ("certified", ("signed", "sealed"))):
        place = folder / name
        place.mkdir()
        if name == "certified":
            await asyncio.to_thread(certify, place)
        async with Network(place) as network:
            bench = phases.Bench(network, size)
            await phases.online(bench, WARM_UP)
            for _ in range(rounds):
                for kind in kinds:
                    bench.encrypt = kind == "sealed"
                    before = processor_s(network)
                    result = await phases.online(bench, messages)
                    result["processor_us"] = round((processor_s(network) - before) / messages * 1e6)
                    rates[kind].append(result["per_s"])
                    times[kind].append(result["processor_us"])
                    print(json.dumps({"phase": kind, **result}), flush=True)
            account = {fault: count + bench.account[fault] for fault, count in account.items()}
    middle = {f"{kind}_per_s": round(median(each)) for kind, each in rates.items()}
    ratios = {
        "signed_ratio": round(middle["signed_per_s"] / middle["plain_per_s"], 3),
        "sealed_ratio": round(middle["sealed_per_s"] / middle["signed_per_s"], 3),
        "whole_ratio": round(middle["sealed_per_s"] / middle["plain_per_s"], 3),
    }
    spent = {f"{kind}_us": round(median(each)) for kind, each in times.items()}
    return found | middle | ratios | spent | account | {"all": rates}


def processor_s(network: Network) -> float:
    """Processor time that the nodes have used so far, in seconds, without their databases."""
    ticks = 0
    for node in network.nodes.values():
        fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def certify(folder: Path) -> None:
    """Give both institutions a certificate of one authority, as an enrolment would."""
    now = SystemClock().wall()
    authority = create_authority("bench", now - timedelta(hours=1))
    trust = TrustStore([authority.certificate])
    for name in (A, B):
        ring = KeyRing(folder / f"data-{name}" / "pki", Address(NodeType.LOCAL, NODE_IDS[name]))
        issued = authority.issue(ring.begin().public_key(), ring.node, now, 30)
        ring.receive(issued.pem, trust, now)
        ring.rotate(now)
        write_safely(ring.trust_path, authority.pem)
