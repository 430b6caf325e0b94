"""The installation under test: a hub of two instances with a standby and a carrier, and the institutions of the table.

Each institution has other doors. Links have TLS and go through proxies.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import sqlalchemy
from msgspec.structs import replace

from bench.rabbitmq.server import cluster_nodes, port_mapper
from bench.versions.checkout import Checkout
from semq.app import sql
from semq.installation.configuration import (
    CARRIER,
    DIRECT,
    HUB,
    STANDBY,
    ApplicationLogin,
    InstallationPlan,
    free_ports,
)
from semq.store.postgres import roles
from tests.campaign import clocked, receivers, senders
from tests.campaign.notebook import REFUSED, Handed, Notebook
from tests.campaign.plan import CampaignPlan
from tests.campaign.receivers import ReceiverProgram, WebhookReceiver
from tests.campaign.senders import SenderProgram
from tests.campaign.traffic import PIECES_FROM, Traffic
from tests.crash import node_requests
from tests.crash.armed.process import ROOT, CrashProcess
from tests.crash.installation import HUB_2, Installation
from tests.crash.rabbitmq import BrokerProcess
from tests.interop import amqplib

PASSWORD = "only-for-tests"
LOGIN = ApplicationLogin("app", PASSWORD)
ROLE = "erp"


class InstitutionRow(NamedTuple):
    """A row of the table of institutions."""

    name: str
    id: str
    doors: Mapping[str, int]  #: name of each door at which it hands documents over | number of its lanes
    users: tuple[str, ...] = ()  #: users with an inbox of their own
    links: tuple[str, ...] = ("first", "second", "standby")  #: order of the hub's processes

    @property
    def address(self) -> str:
        return f"1.{self.id}"


SQL, FOLDER, HTTP, QUEUES, APP, VIRTUAL = "sql", "folder", "http", "queues", "app", "virtual"
INSTITUTIONS = (
    InstitutionRow(QUEUES, "10008", {"aio-pika": 1, "pika": 1, "amqplib": 1, "celery": 1}),
    InstitutionRow(SQL, "20002", {"sql": 2}),
    InstitutionRow(FOLDER, "30003", {"folder": 1}, users=("desk",)),
    InstitutionRow(HTTP, "40004", {"http": 2}),
    InstitutionRow(APP, "50005", {"app": 2}, users=("buyer", "seller")),
    InstitutionRow(VIRTUAL, "60006", {"own aio-pika": 1}),
)
OLD = HTTP  # the institution whose node is of an older version in campaigns with `--old`
BY_NAME = {each.name: each for each in INSTITUTIONS}
ADDRESSES = {each.name: each.address for each in INSTITUTIONS}
USERS = {each.address: [f"{each.address}/{user}" for user in each.users] for each in INSTITUTIONS if each.users}
GROUPS = {
    "3.all": [each.address for each in INSTITUTIONS],
    **{f"4.{each.id}": USERS[each.address] for each in INSTITUTIONS if len(each.users) > 1},
}

DISK = FOLDER  # the institution whose data are on a small disk of their own, if the user is root
DISK_MIB = 512
CLOCKED = (SQL, APP, VIRTUAL)  # institutions whose nodes have wall clocks of their own
DIRECTLY = (QUEUES, APP)  # the first dials the second
PROCESSES_OF_HUB = {"first": HUB, "second": HUB_2, "standby": STANDBY}
# Proxy | process behind it
PROXIES = {
    **{f"{place}-{each.name}": node for each in INSTITUTIONS for place, node in PROCESSES_OF_HUB.items()},
    "way-hub": CARRIER, "way-hub-2": CARRIER, "way-standby": CARRIER,
    f"app-{QUEUES}": QUEUES, DIRECT: APP,
}  # fmt: skip
WAYS = {HUB: "way-hub", HUB_2: "way-hub-2", STANDBY: "way-standby"}
BROKERS = tuple(f"{CARRIER}-{number}" for number in (1, 2, 3))  # a cluster of RabbitMQ in the place of the carrier
EXTRACTS, REPORTS = "extracts", "reports"


def installation(hour: int) -> InstallationPlan:
    """Return the installation. ``hour``: the present one, UTC; the campaign is within one business date."""
    cutoff = f"{(hour + 12) % 24:02d}:00"
    return InstallationPlan(
        {each.name: each.id for each in INSTITUTIONS},
        LOGIN,
        secure=True,
        direct=DIRECTLY,
        virtual=VIRTUAL,
        instances=2,
        common_rows={
            "protocol.inquiry_s": 0.5, "protocol.inquiry_s_max": 3.0, "protocol.inquiry_custody_s_max": 3.0,
            "protocol.cleanup_s": 0.2, "extract.folder": EXTRACTS, "extract.cutoff": cutoff, "log.format": "json",
        },
        hub_rows={
            "amqp.heartbeat_s": 2, "reconcile.extracts": EXTRACTS, "reconcile.reports": REPORTS,
            "reconcile.cutoff": cutoff, "reconcile.in_flight_s": 1, "reconcile.required": ["2.hub.1.1", "2.hub.2.2"],
        },
        local_rows={
            "hub.reconnect_s_min": 0.1, "hub.reconnect_s_max": 1.0, "protocol.pieces_from_bytes": PIECES_FROM,
        },
    )  # fmt: skip


def definitions(withdrawn: tuple[str, str] | None = None, reduced: tuple[str, str] | None = None) -> str:
    """Return the definitions of the hub.

    ``withdrawn``: names of two institutions, of which the first may not send to the second. ``reduced``: two of which
    the first may send few documents to the second.
    """
    ids = {each.name: each.id for each in INSTITUTIONS}
    lines = [
        *(f"[nodes.{each.id}]\nusers = {json.dumps(each.users)}" for each in INSTITUTIONS if each.users),
        f"[groups.all]\nmembers = {json.dumps([*ids.values()])}",
    ]
    if reduced is not None:
        source, target = reduced
        pair = f"[[agreements]]\nfrom = ['{ids[source]}']\nto = ['{ids[target]}']\n"
        lines.append(f"{pair}per_minute = 30\nwaiting_max = 5")
    source, target = withdrawn or ("", "")
    for name, number in ids.items():
        partners = [other for partner, other in ids.items() if (name, partner) != (source, target)]
        lines.append(f"[[agreements]]\nfrom = ['{number}']\nto = {json.dumps(partners)}")
    return "\n".join(lines)


class CampaignWorld(Installation):
    """The installation, and the applications of its institutions."""

    def __init__(self, folder: Path, plan: CampaignPlan, notebook: Notebook, old: Checkout | None = None) -> None:
        """``old``: the version of the node of OLD; None: the present one."""
        targets = PROXIES | dict(zip(WAYS.values(), BROKERS, strict=True)) if plan.rabbitmq else PROXIES
        super().__init__(folder, targets, ADDRESSES, cluster=True)
        self.links_beside_direct = tuple(
            name for name, node in PROXIES.items() if node in PROCESSES_OF_HUB.values() and name.endswith(DIRECTLY)
        )
        self._resources = ExitStack()
        self.old = old
        self.notebook = notebook
        self.receivers: dict[str, ReceiverProgram] = {}  #: by address
        self.senders: list[tuple[InstitutionRow, str, int, SenderProgram]] = []  #: institution, door, lane, its program
        self.webhook_port = free_ports(1)[0]
        self.http_port = free_ports(1)[0]
        self.token = ""
        self.door = folder / "door"
        self.disk: Path | None = None  #: the small disk of DISK
        self.defining = asyncio.Lock()  #: one change of the definitions at a time
        self.using_door = asyncio.Lock()  #: the folder is away, or an application writes into it
        self.stopping = defaultdict[str, asyncio.Lock](asyncio.Lock)  #: only one act at a time keeps a node down
        self.restoring = defaultdict[str, asyncio.Lock](asyncio.Lock)
        self._plan, self._seed = plan, plan.seed
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, hour: int) -> None:
        """Start all processes; return when they serve and the applications receive."""
        await self.prepare(hour)
        await self.start_nodes(BY_NAME, definitions())
        await node_requests.ask(self.nodes[HUB], "stores.balance")
        await self._start_applications()

    async def prepare(self, hour: int) -> None:
        """Start the proxies and the shared server, and write the configurations. The nodes are not started yet."""
        await self.start_proxies()
        if self._plan.rabbitmq:
            mapper = self._resources.enter_context(port_mapper(self._plan.root))
            nodes = cluster_nodes(self._home_of_rabbitmq(), mapper, len(BROKERS), LOGIN, self._plan.root)
            self.brokers = {name: BrokerProcess(name, node) for name, node in zip(BROKERS, nodes, strict=True)}
        links = {
            each.name: [self.proxies[f"{place}-{each.name}"].port for place in _turned(each)] for each in INSTITUTIONS
        }
        for hub, way in WAYS.items():
            others = [broker.port for name, broker in self.brokers.items() if name != self._targets[way]]
            links[hub] = [self.proxies[way].port, *others]
        links[DIRECT] = [self.proxies[DIRECT].port]
        shared = await self.start_server()
        self._mount_disk()
        carrier = f"amqp://127.0.0.1:{self.brokers[BROKERS[0]].port}" if self.brokers else ""
        places = replace(installation(hour), shared_database=shared, carrier=carrier).write(self.folder, links)
        for name, text in self._more_configuration().items():
            with places[name].config.open("a", encoding="utf-8") as stream:
                stream.write(text)
        self.add_nodes(places)
        if self.old is not None:
            shutil.rmtree(places[OLD].data_dir, ignore_errors=True)  # an empty database is of this version
            self.nodes[OLD].run_by(self.old.program.python, self.old.program.variables)
        for name in CLOCKED:
            self.set_clock(name, 0.0)
            variables = {clocked.VARIABLE: str(self._clock_file(name)), "PYTHONPATH": str(ROOT)}
            self.nodes[name].run_by(sys.executable, variables, clocked.__name__)

    def _home_of_rabbitmq(self) -> Path:
        """Return the folder of RabbitMQ's nodes."""
        if self._plan.root is None:
            return self.folder
        home = TemporaryDirectory(prefix="rabbitmq-", dir=self._plan.root / "var/tmp", ignore_cleanup_errors=True)
        return Path(self._resources.enter_context(home))

    def _mount_disk(self) -> None:
        if os.geteuid():
            return
        folder = self.folder / DISK
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            self.disk = folder

    def _unmount_disk(self) -> None:
        disk, self.disk = self.disk, None
        if disk is not None:
            subprocess.run(["umount", "--lazy", str(disk)], capture_output=True, check=False)

    def set_clock(self, name: str, ahead_s: float) -> None:
        """Put the wall clock of a node forward, or back."""
        file = self._clock_file(name)
        file.with_suffix(".new").write_text(str(ahead_s))
        file.with_suffix(".new").rename(file)

    def _clock_file(self, name: str) -> Path:
        return self.folder / f"{name}.clock"

    def _more_configuration(self) -> dict[str, str]:
        folder = '\n[[folders]]\npath = "door"\ndomain = "trade"\nsettle_s = 0.2\n'
        hook = (
            f'\n[[webhooks]]\nname = "desk"\nurl = "http://127.0.0.1:{self.webhook_port}/"\nuser = "desk"\n'
            f'secret = "whsec_{"A" * 43}="\nallow_private = true\n'
        )
        return {FOLDER: folder + hook, HTTP: f"\n[http]\nport = {self.http_port}\n"}

    async def _start_applications(self) -> None:
        queues, postgres, folder, http, app, virtual = (self.nodes[each.name] for each in INSTITUTIONS)
        role_url = await asyncio.to_thread(_grant, postgres)
        self.role_url = role_url
        scopes = ["submit", "receive", "viewer", "events"]
        answer = await node_requests.ask(http, "token.create", name="campaign", scopes=scopes)
        self.token = answer["token"]
        http_url = f"http://127.0.0.1:{self.http_port}"
        app_port = self.proxies[f"app-{QUEUES}"].port
        amqp_url = f"amqp://app:{PASSWORD}@127.0.0.1:{app_port}/"
        door = self.door
        users = {user: f"{ADDRESSES[APP]}/{user}" for user in BY_NAME[APP].users}
        note = self.notebook
        self._add(receivers.AioPikaReceiver(ADDRESSES[QUEUES], note, self._chance(QUEUES), amqp_url, "semq.inbox"))
        self._add(receivers.SqlReceiver(ADDRESSES[SQL], note, self._chance(SQL), lambda: role_url))
        self._add(receivers.FolderReceiver(ADDRESSES[FOLDER], note, self._chance(FOLDER), door))
        desk = f"{ADDRESSES[FOLDER]}/desk"
        self._add(WebhookReceiver(desk, note, self._chance(desk), self.webhook_port))
        self._add(receivers.HttpReceiver(ADDRESSES[HTTP], note, self._chance(HTTP), http_url, self.token))
        for user, address in {"": ADDRESSES[APP], **users}.items():
            self._add(receivers.AppReceiver(address, note, self._chance(address), lambda: app.url, user))
        self._add(receivers.AioPikaReceiver(ADDRESSES[VIRTUAL], note, self._chance(VIRTUAL), virtual.url, "semq.inbox"))
        make: dict[str, Callable[[Random], SenderProgram]] = {
            "aio-pika": lambda chance: senders.AioPikaSender(chance, amqp_url),
            "own aio-pika": lambda chance: senders.AioPikaSender(chance, virtual.url),
            "pika": lambda chance: senders.PikaSender(chance, "127.0.0.1", app_port, "app", PASSWORD),
            "amqplib": lambda chance: senders.AmqplibSender(chance, amqp_url),
            "celery": lambda chance: senders.CelerySender(chance, amqp_url),
            "sql": lambda chance: senders.SqlSender(chance, lambda: role_url),
            "folder": lambda chance: senders.FolderSender(chance, door, self.using_door),
            "http": lambda chance: senders.HttpSender(chance, http_url, self.token),
            "app": lambda chance: senders.AppSender(chance, lambda: app.url),
        }
        for institution in INSTITUTIONS:
            for name, lanes in self._doors(institution):
                for lane in range(lanes):
                    sender = make[name](self._chance(f"{institution.name}.{name}.{lane}"))
                    self.senders.append((institution, name, lane, sender))
        for node in (queues, app, folder, http, virtual):
            is_following = asyncio.Event()
            self._begin(receivers.follow_events(note, lambda node=node: node.url, is_following))  # type: ignore[misc]
            await is_following.wait()

    def _doors(self, institution: InstitutionRow) -> list[tuple[str, int]]:
        only, away = self._plan.doors, set() if amqplib.is_available() else {"amqplib"}
        doors = [(name, lanes) for name, lanes in institution.doors.items() if name not in away]
        return [(name, lanes) for name, lanes in doors if only is None or name in only]

    def _add(self, receiver: ReceiverProgram) -> None:
        self.receivers[receiver.address] = receiver
        self._begin(receiver.run())

    def _begin(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    def _chance(self, name: str) -> Random:
        return Random(f"{self._seed}/{name}")

    def traffic(self, institution: InstitutionRow, door: str, lane: int, can: frozenset[str]) -> Traffic:
        """Return the documents of a lane. ``can``: traits of its door.

        Only one lane of an institution has documents with @Fixed, because these have one order for all lanes.
        """
        if lane or door != next(iter(institution.doors)):
            can -= {"fixed"}
        partners = [address for address in ADDRESSES.values() if address != institution.address]
        users = {address: users for address, users in USERS.items() if address != institution.address}
        groups = {
            key: [each for each in members if each.partition("/")[0] != institution.address]
            for key, members in GROUPS.items()
        }
        groups = {key: members for key, members in groups.items() if len(members) > 1}
        if not any(key.startswith("4.") for key in groups):
            can -= {"users"}
        return Traffic(
            self._seed,
            institution.name,
            door,
            lane,
            can,
            partners,
            users,
            groups,
            self._plan.traffic,
            [ADDRESSES[DISK]],
        )

    async def cancel(self, document: Handed) -> str:
        """Cancel a document until the node has answered; return the reason of a refusal, or an empty text."""
        return await node_requests.ask_or_refused(self.nodes[document.source], "msg.cancel", id=document.app_key)

    async def tell_states(self) -> None:
        """Write what the doors without events say about their documents into the notebook."""
        documents = list(self.notebook.documents.values())
        by_sql = [each for each in documents if each.door == "sql"]
        await asyncio.to_thread(self._tell_sql_states, by_sql)

    def _tell_sql_states(self, documents: list[Handed]) -> None:
        engine = sqlalchemy.create_engine(self.role_url)
        with engine.connect() as connection:
            for document in documents:
                number = document.lk0.removeprefix("sql-")
                if any(each.is_sender_of(document) for each in self.notebook.restores):
                    continue  # the store has lost it, or has given its number to another one
                name = document.token if document.batch or not number else int(number)
                state = sql.status(connection, name)
                if state is not None:
                    if state.state == REFUSED:
                        document.certainty, document.refusal = REFUSED, state.reason
                    self.notebook.tell_outcome(document.number, "status", state.state, state.reason)
        engine.dispose()

    async def stop(self) -> None:
        """End the applications, then all processes in an orderly way."""
        await self._end_applications()
        await self.stop_processes()
        await self.end_proxies_and_server()
        self._resources.close()

    async def remove(self) -> None:
        """End everything immediately."""
        await self._end_applications()
        await self.remove_processes()
        await self.end_proxies_and_server()
        self._unmount_disk()
        self._resources.close()

    async def _end_applications(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        self.complaints += [f"an application ended: {end!r}" for end in ends if isinstance(end, Exception)]
        for *_, sender in self.senders:
            with suppress(Exception):
                await sender.close()
        self.senders = []


def _turned(institution: InstitutionRow) -> tuple[str, ...]:
    """Return the hub's processes in the order in which an institution dials them."""
    first, second, standby = institution.links
    return (first, second, standby) if INSTITUTIONS.index(institution) % 2 == 0 else (second, first, standby)


def _grant(node: CrashProcess) -> str:
    """Create the role of the application; return its URL for SQLAlchemy."""
    url, password = node.postgres.url, roles.new_password()
    data_dir = node.place.data_dir
    roles.grant(url, ROLE, ["send", "receive"], password, lambda: roles.keep_password(data_dir, ROLE, password))
    return roles.url_for(url, ROLE, data_dir, embedded=True).replace("postgresql://", "postgresql+psycopg://", 1)
