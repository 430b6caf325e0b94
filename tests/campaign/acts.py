"""Faults by people and by the surroundings of nodes: agreements, certificates, operators, disks, clocks, rules of SQL.

Each one notes in the notebook which outcomes it permits to documents under way (``PermittedOutcome``).
"""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import class_row

from semq.engine.errors import (
    GroupRefused,
    PieceNotDelivered,
    PiecesMissing,
    RefusedByOperator,
    TargetNotAllowed,
    UnknownTarget,
)
from semq.installation.configuration import HUB
from semq.seal.errors import CertificateUnvouched, KeyUnknown, SignerGone, SignerUnknown
from semq.store.postgres.errors import RowRefused
from semq.umx_t.status import Arrival
from tests.campaign.notebook import PermittedOutcome, RestoredStore
from tests.campaign.statements import AlarmLine
from tests.campaign.world import ADDRESSES, FOLDER, CampaignWorld, definitions
from tests.crash import node_requests
from tests.crash.armed.process import CrashProcess
from tests.crash.faults import CycleFault

ALARMS_OF_REVOKED = (SignerUnknown.code, CertificateUnvouched.code, SignerGone.code)
ROLL_S_MAX = 120.0  # longest time until all nodes use a new authority
MORE = " more violations of this peer within "
RECENT = 40  # documents of which an operator chooses one
POLL_S = 0.5
FULL_KEPT_BYTES = 4096  # left on a full disk
RULE = """
CREATE OR REPLACE FUNCTION campaign_rule() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'no such documents today'; END $$;
CREATE OR REPLACE TRIGGER campaign_rule BEFORE INSERT ON tb_0030 FOR EACH ROW
WHEN (NEW.status = {received} AND NEW.app_type = '{kind}') EXECUTE FUNCTION campaign_rule()
"""
CAMPAIGN = "campaign"  # reason of all acts


class LedgerLineRow(NamedTuple):
    lk0: str
    app_key: str  #: of the first line about a message: the number of the document


Act = Callable[[CampaignWorld, CycleFault], Awaitable[None]]


async def withdraw_agreement(world: CampaignWorld, fault: CycleFault) -> None:
    """Withdraw the agreement by which one institution sends to another; renew it after a while."""
    began, pair = time.time(), (fault.where, fault.text)
    async with world.defining:
        await _define(world, definitions(withdrawn=pair))
        await asyncio.sleep(fault.value)
        await _define(world, definitions())
    # A group is refused as a whole, so that the other members are concerned, too; the users of an institution are known
    # to those only who may send to it.
    codes = (TargetNotAllowed.code, GroupRefused.code, PieceNotDelivered.code, UnknownTarget.code)
    world.notebook.permitted.append(PermittedOutcome(began, time.time(), codes, source=fault.where))


async def reduce_quota(world: CampaignWorld, fault: CycleFault) -> None:
    """Reduce the rate and the number of waiting documents from one institution to another for a while: doors wait."""
    async with world.defining:
        await _define(world, definitions(reduced=(fault.where, fault.text)))
        await asyncio.sleep(fault.value)
        await _define(world, definitions())


async def _define(world: CampaignWorld, document: str) -> None:
    await node_requests.ask(world.nodes[HUB], "definitions.import", document=document)


async def roll_authority(world: CampaignWorld, fault: CycleFault) -> None:
    """Begin a change of the hub's authority, unless one is in progress. The end of the campaign waits for it."""
    await node_requests.ask(world.nodes[HUB], "ca.roll")


async def revoke(world: CampaignWorld, fault: CycleFault) -> None:
    """Revoke the certificates of an institution; its node enrols again, with another key."""
    began = time.time()
    async with world.stopping[fault.where]:
        await world.revoke(fault.where)
        await world.enrol_again(fault.where)
    codes = (SignerGone.code, SignerUnknown.code, KeyUnknown.code)
    world.notebook.permitted += [
        PermittedOutcome(began, time.time(), codes, source=fault.where),
        PermittedOutcome(began, time.time(), codes, target=ADDRESSES[fault.where]),
    ]


async def restore(world: CampaignWorld, fault: CycleFault) -> None:
    """Make a backup of an institution's database, and put it back a little later."""
    name = fault.where
    async with _put_back(world, fault) as (began, lines, kept):
        names = frozenset(line.lk0 for line in lines[kept:] if line.lk0)
        numbers = frozenset(int(line.app_key) for line in lines if line.lk0 in names and line.app_key.isdigit())
        address, ended = ADDRESSES[name], time.time()
        world.notebook.restore(RestoredStore(name, address, began, ended, names, numbers))
        # It has lost pieces for which it has given receipts.
        world.notebook.permitted.append(PermittedOutcome(began, ended, (PiecesMissing.code,), target=address))


async def restore_hub(world: CampaignWorld, fault: CycleFault) -> None:
    """Make a backup of a hub's database, and put it back a little later: it loses lines of this time."""
    async with world.changing_store, world.defining, _put_back(world, fault) as (began, _, _):
        world.notebook.hub_outages.append((began, time.time()))


@asynccontextmanager
async def _put_back(world: CampaignWorld, fault: CycleFault) -> AsyncIterator[tuple[float, list[LedgerLineRow], int]]:
    """Make a backup of a node's database and put it back; yield the time of the backup, all lines of the ledger, and
    the number of those that are not lost. The node starts at the end.
    """
    name, node = fault.where, world.nodes[fault.where]
    data, backup = node.postgres.data, world.folder / f"backup-{name}"
    async with world.restoring[name]:  # the plan may draw a node twice at once
        async with world.stopping[name]:
            await node.down(orderly=True)
            kept = await asyncio.to_thread(_read_ledger, node)
            await asyncio.to_thread(shutil.copytree, data, backup)
            began = time.time()
            node.up()
        with suppress(TimeoutError):  # other faults strike it
            await node.wait_until_serving()
        await asyncio.sleep(fault.value)
        async with world.stopping[name]:
            await node.down()
            lines = await asyncio.to_thread(_read_ledger, node)
            await asyncio.to_thread(shutil.rmtree, data)
            await asyncio.to_thread(backup.rename, data)
            yield began, lines, len(kept)
            node.up()


def _read_ledger(node: CrashProcess) -> list[LedgerLineRow]:
    """Return the lines of a node's ledger, and leave its database server stopped."""
    node.postgres.start()
    with psycopg.connect(node.database, row_factory=class_row(LedgerLineRow)) as connection:
        lines = connection.execute("SELECT lk0, app_key FROM semq_ledger ORDER BY number").fetchall()
    node.postgres.stop()
    return lines


async def operate(world: CampaignWorld, fault: CycleFault) -> None:
    """Let an operator act on a recent document of an institution."""
    chance = Random(f"{fault.where}/{fault.at_s}/{fault.value}")
    recent = [each for each in list(world.notebook.documents.values()) if each.source == fault.where][-RECENT:]
    if not recent:
        return
    document = chance.choice(recent)
    node = world.nodes[fault.where]
    refusal = await node_requests.ask_or_refused(node, f"msg.{fault.text}", id=document.app_key, why=CAMPAIGN)
    world.notebook.note(document.number, f"operator: {fault.text}", refusal=refusal)
    if fault.text == "hold" and not refusal:
        await asyncio.sleep(fault.value)
        await node_requests.ask_or_refused(node, "msg.release", id=document.app_key, why=CAMPAIGN)


async def operate_hub(world: CampaignWorld, fault: CycleFault) -> None:
    """Let an operator of the hub refuse all copies for an institution, or send them again."""
    began, target = time.time(), ADDRESSES[fault.where]
    counts = await node_requests.ask_or_refused(world.nodes[HUB], f"held.{fault.text}", target=target, why=CAMPAIGN)
    world.notebook.note(0, f"operator of the hub: {fault.text}", counts=counts)
    if fault.text == "refuse":
        codes = (RefusedByOperator.code, PieceNotDelivered.code)
        world.notebook.permitted.append(PermittedOutcome(began, time.time(), codes, target=target))


async def unmount(world: CampaignWorld, fault: CycleFault) -> None:
    """Put an empty folder into the place of a served folder, as if its disk was unmounted.

    With the text "kill" the node is killed before the folder is back, when documents wait that could not be written.
    """
    door, away = world.door, world.door.with_name("door.away")
    async with world.using_door:
        await asyncio.to_thread(_swap_away, door, away)
        await asyncio.sleep(fault.value)
        if fault.text == "kill":
            world.nodes[FOLDER].kill(0.0)
        if left := await asyncio.to_thread(_swap_back, door, away):
            world.complaints.append(f"the node wrote into an unmounted folder: {left}")


def _swap_away(door: Path, away: Path) -> None:
    door.rename(away)
    door.mkdir()


def _swap_back(door: Path, away: Path) -> list[Path]:
    """Return the files that were written into the empty folder."""
    left = [path for path in door.rglob("*") if path.is_file()]
    shutil.rmtree(door)
    away.rename(door)
    return left


async def fill_disk(world: CampaignWorld, fault: CycleFault) -> None:
    """Fill the disk of a node, with its database, for a while."""
    disk = world.disk
    if disk is None:  # only root can mount one
        return
    filler = disk / "filler"
    try:
        with suppress(OSError), filler.open("wb") as stream:  # the disk may be full already
            while stream.write(bytes(1 << 20)):
                stream.flush()
        await asyncio.sleep(fault.value)
    finally:
        filler.unlink(missing_ok=True)


async def step_clock(world: CampaignWorld, fault: CycleFault) -> None:
    """Put the clock of a node forward or back, and later right again."""
    world.set_clock(fault.where, fault.value)
    await asyncio.sleep(abs(fault.value) % 5)
    world.set_clock(fault.where, 0.0)


async def refuse_rows(world: CampaignWorld, fault: CycleFault) -> None:
    """Let a trigger in a node's database refuse received documents of one kind."""
    began, node = time.time(), world.nodes[fault.where]
    rule = RULE.format(received=int(Arrival.RECV), kind=fault.text)
    await _execute(lambda: node.database, rule)
    await asyncio.sleep(fault.value)
    await _execute(lambda: node.database, "DROP TRIGGER IF EXISTS campaign_rule ON tb_0030")
    # A row that is refused again as REJ leaves only its position (PROTOCOL.md section 5.3, R1).
    target = ADDRESSES[fault.where]
    world.notebook.permitted.append(PermittedOutcome(began, time.time(), (RowRefused.code,), target=target))


async def _execute(url: Callable[[], str], text: str) -> None:
    async def act() -> None:
        try:
            async with await psycopg.AsyncConnection.connect(url(), autocommit=True) as connection:
                await connection.execute(text.encode())
        except psycopg.OperationalError as error:  # a fault strikes its server
            raise ConnectionError(str(error)) from error

    await node_requests.repeat_until_done(act)


def unexplained(world: CampaignWorld, alarms: Iterable[AlarmLine]) -> Iterator[AlarmLine]:
    """Yield the alarms that no revocation explains: that the signer is unknown, or no voucher introduces the new
    certificate, at the partners of the revoked institution.
    """
    revoked = [ADDRESSES[name] for name in world.revoked]
    for line in alarms:
        is_of_signer = line.code in ALARMS_OF_REVOKED or MORE in line.detail
        if not (is_of_signer and any(line.is_about(address) for address in revoked)):
            yield line


async def until_authority_is_changed(world: CampaignWorld) -> None:
    """Wait until no change of the authority is in progress; complain after ROLL_S_MAX."""
    status: dict[str, Any] = {}
    try:
        async with asyncio.timeout(ROLL_S_MAX):
            while status.get("phase") not in ("none", "done"):
                await asyncio.sleep(POLL_S)
                status = await node_requests.ask(world.nodes[HUB], "ca.show")
    except TimeoutError:
        world.complaints.append(f"the change of the authority did not end: {status}")


ACTS: dict[str, Act] = {
    "withdraw": withdraw_agreement,
    "quota": reduce_quota,
    "roll": roll_authority,
    "revoke": revoke,
    "restore": restore,
    "restore hub": restore_hub,
    "operator": operate,
    "hub operator": operate_hub,
    "unmount": unmount,
    "full disk": fill_disk,
    "clock": step_clock,
    "rule": refuse_rows,
}
