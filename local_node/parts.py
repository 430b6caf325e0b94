"""The assembly of a local node: each part is made of those above it, and the engine, which follows, of these parts."""

from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from local_node.doors.events import EventExchange, declare_events
from local_node.doors.inbox import Inboxes, QueuesWithInboxes
from local_node.doors.notices import AGAIN_S, NotifiedJob
from local_node.doors.schedule import POLL_S, ScheduledDocuments
from local_node.doors.sql_submissions import SqlSubmissions
from local_node.doors.submission import Sizes, SubmitExchange
from local_node.link.answers import Answers
from local_node.link.direct import DirectLinks, PartnerLogins
from local_node.link.hub import HubPort, HubUplink, NoHub
from local_node.link.hub_addresses import DialAddresses, hub_dial_configs
from local_node.link.partner_questions import PartnerQuestions
from local_node.link.single_request import VIRTUAL_HOST
from local_node.link.uplink import Uplink, UplinkSettings, link_limits
from local_node.pieces.assembly import Assembly
from local_node.pieces.remains import Remains
from local_node.pieces.transfer import EventsWithPieces, Transfers
from local_node.pieces.upload import Uploads
from local_node.ports import LocalParts
from local_node.renewal import Renewing
from semq.config.sections import DialledSection, DirectSection, HubSection
from semq.config.settings import Settings
from semq.engine.local_engine import LocalEngine
from semq.service.access import APPLICATIONS
from semq.service.credentials.identity import NodeIdentity
from semq.service.datagrams.ends import DiallingEnd, OfferingEnd
from semq.service.engine_handle import EngineHandle
from semq.service.links.rights import UMX
from semq.service.links.sessions import Links
from semq.service.node_host import Ground
from semq.store.views.messages import waiting_for
from semq.umx_t.address import Address

SUBMITTED, SCHEDULE = "sql_submissions", "schedule"  # jobs
L = TypeVar("L", bound=Uplink)


def assemble(
    ground: Ground[LocalEngine], answers: Answers, identity: NodeIdentity | None, logins: PartnerLogins | None
) -> LocalParts:
    """Make the parts, and register their exchanges and queues. ``logins``: None without section ``direct``."""
    settings, engine, store, clockwork = ground.settings, ground.engine, ground.store, ground.clockwork
    vhost = ground.server.vhosts[APPLICATIONS]

    # Documents of applications
    assembly = Assembly(engine, store)
    inboxes = Inboxes(engine, ground.turn, lambda user, at_most: store.execute(waiting_for, user, at_most), assembly)
    ground.cleanup.callback(inboxes.presence.stop)
    submissions = SqlSubmissions(engine, partial(clockwork.hasten, SUBMITTED, AGAIN_S))
    sql_submissions = NotifiedJob(SUBMITTED, submissions.poll, clockwork)
    sql_done = NotifiedJob("sql_done", partial(_poll_completions, engine), clockwork)
    schedule = ScheduledDocuments(
        engine, partial(clockwork.hasten, SCHEDULE), submissions.poll_then, POLL_S * ground.poll_factor
    )
    transfers = Transfers(engine, store, submissions.poll)
    uploads = Uploads(engine, transfers.search)
    remains = Remains(engine, store, uploads, ground.clock_check)
    events = EventsWithPieces(EventExchange(vhost), transfers.note_event, remains.note_failed)
    vhost.register(SubmitExchange(vhost, engine, ground.turn, _sizes(settings), uploads))
    vhost.queues = QueuesWithInboxes(vhost.queues, inboxes)
    declare_events(vhost)

    # Links to other nodes
    offering = direct = None
    if logins is not None and identity is not None:
        if settings.datagrams is not None:
            offering = OfferingEnd(settings.datagrams, ground.address, ground.clock)
            ground.cleanup.callback(offering.stop)
        links = Links(engine, ground.turn, settings.protocol.credit_bytes, datagrams=offering)
        direct = DirectLinks(
            settings.direct, links, logins, partial(_partner_link, ground), ground.server.vhosts[UMX], ground.address,
            identity.client_tls(), ground.link_bytes_max,
        )  # fmt: skip
        asked = ground.server.vhosts[VIRTUAL_HOST]
        asked.register(PartnerQuestions(answers).exchange(asked))
    hub: HubPort
    renewing = None
    if settings.hub is not None:
        hub = link = _hub_link(ground, settings.hub, identity, answers)
        if identity is not None and settings.hub.is_tls:
            renewing = Renewing(identity, partial(link.address, settings.tls.minimum), ground.clock, link.restart)
    else:
        assert direct is not None  # a node has a hub or partners
        hub = NoHub(direct)
    return LocalParts(
        assembly, inboxes, submissions, sql_submissions, sql_done, schedule, transfers, uploads, remains, events,
        offering, direct, hub, renewing,
    )  # fmt: skip


def _poll_completions(engine: EngineHandle[LocalEngine]) -> None:
    engine.current.completions.poll()


def _sizes(settings: Settings) -> Sizes:
    protocol, message_max = settings.protocol, settings.amqp.max_message_bytes
    if protocol.pieces_from_bytes > protocol.max_document_bytes:  # no document is sent in pieces
        return Sizes(message_max, message_max, message_max)
    return Sizes(
        protocol.max_document_bytes, protocol.pieces_from_bytes, max(protocol.max_large_document_bytes, message_max)
    )


def _hub_link(
    ground: Ground[LocalEngine], hub: HubSection, identity: NodeIdentity | None, answers: Answers
) -> HubUplink:
    tls = identity.client_tls() if identity is not None and hub.is_tls else None
    limits = link_limits(ground.link_bytes_max)
    configs = hub_dial_configs(hub, ground.address, tls, UMX)
    addresses = DialAddresses([replace(config, limits=limits) for config in configs])
    return _uplink(HubUplink, ground, addresses, hub, answer_questions=answers.listen)


def _partner_link(
    ground: Ground[LocalEngine], partner: Address, section: DirectSection, addresses: DialAddresses
) -> Uplink:
    return _uplink(Uplink, ground, addresses, section, partner=partner)


def _uplink(
    kind: type[L], ground: Ground[LocalEngine], addresses: DialAddresses, dialled: DialledSection, **rest: Any
) -> L:
    protocol = ground.settings.protocol
    limits = UplinkSettings(dialled.reconnect_s_min, dialled.reconnect_s_max, protocol.flight, protocol.credit_messages)
    return kind(
        ground.address, addresses, limits, ground.engine, ground.login, ground.clock, ground.turn,
        datagrams=_dialling_end(ground), **rest,
    )  # fmt: skip


def _dialling_end(ground: Ground[LocalEngine]) -> DiallingEnd | None:
    """Return the datagram end of a link that this node dials; None without section ``datagrams``.

    With direct links the listening end (``offering``) has the configured port.
    """
    section = ground.settings.datagrams
    if section is None:
        return None
    own = section.model_copy(update={"port": None}) if ground.settings.direct else section
    return DiallingEnd(own, ground.address, ground.clock)
