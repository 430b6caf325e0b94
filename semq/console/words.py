"""Texts that the console translates: statuses, events, causes and jobs of other modules, and those below.

Templates translate their own texts. ``texts`` lists all others; ``tests/console/test_words.py`` compares the
translations with it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from semq.config.reference import rows
from semq.config.settings import Settings
from semq.console.acts import ACTS
from semq.counters import COUNTERS
from semq.datagrams.session import NO_LINK
from semq.engine.hub.copies import NOTED
from semq.engine.hub.copy_acts import NOBODY
from semq.engine.people.stuck import StuckCause
from semq.service.monitoring.health import DRAINED, NOT_DIALLED, REVOKED, WENT_BACK
from semq.service.operations.jobs import DESCRIPTIONS
from semq.service.operations.outlook import WAITS
from semq.status_words import FIGURES, LATENCIES, WORDS
from semq.store.views import messages, submissions
from semq.web.access.sessions import LINK_USER

# Check of ``node.health`` | name on the page, next step if it is not ok
CHECKS: dict[str, tuple[str, str]] = {
    "store": ("database", "Check the log of the node and Postgres; the node opens its store again when possible."),
    "link": (
        "link to the hub",
        "Meanwhile documents wait here. Check address, network, and certificate or password: `semq doctor`.",
    ),
    "direct": (
        "direct links",
        "Meanwhile documents go through the hub, or wait. Check address and network, also at the partner.",
    ),
    "datagrams": (
        "datagrams",
        "Meanwhile documents with @Reliable=0 use the connection, or are lost: let UDP pass, or send fewer.",
    ),
    "intake": ("acceptance of documents", "Stop the node, or restart it to accept documents again."),
    "certificate": (
        "own certificate",
        "The node renews its certificate; if it does not, see the page of certificates.",
    ),
    "certificates": ("certificates of institutions", "Ask these institutions to renew, or make a token for them."),
    "files": ("files of certificates and keys", "Replace the files that are named; the node reads them again."),
    "resources": ("memory and disk", "Publishers wait until there is space: check for stopped consumers."),
    "quotas": (
        "quotas of partners",
        "Their quota is used up: ask these partners to receive, or raise quota_rows_per_partner.",
    ),
    "submissions": ("documents submitted by SQL", "See the page of failed documents."),
    "violations": (
        "violations by peers",
        "Tell the operator of the peer what was refused, and which version your node has.",
    ),
    "rows": (
        "rows refused by Postgres",
        "A trigger, constraint or policy on a table of the node refuses documents: remove it, then submit them again.",
    ),
    "jobs": ("scheduled jobs", "See the error on the page of scheduled work; the job runs again at its usual time."),
    "database": (
        "requirements of the database",
        "Follow the advice in the detail; `semq doctor` checks the same list.",
    ),
    "telemetry": ("export of spans", "Check address, headers and the collector; documents are not affected."),
    "extract": ("nightly extract", "Check the log of the node; run the job again on the page of scheduled work."),
    "folders": ("folders", "Correct the problem in the detail. Meanwhile documents wait; they are tried again."),
    "webhooks": ("webhooks", "Correct the problem in the detail. Meanwhile documents wait; they are tried again."),
    "http": ("web process", "The process restarts automatically; its log contains the reason for its end."),
}
OTHER_CHECK = ("", "Check the log of the node.")
# Details of checks and their parts (``details``); other details quote errors
CHECK_DETAILS = (
    DRAINED, NOT_DIALLED, REVOKED, NO_LINK, "being opened", "not dialled yet", "the process has not started yet",
    "low on memory", "the file is empty (%(file)s)", "no certificates in PEM form (%(file)s)",
    "the other end has offered no channel",
    "no datagram of the other end has arrived", "documents with @Reliable=0 are sent over the AMQP connection",
    WENT_BACK + "%(commits)s", "documents that it lacks: %(count)s (`semq node missing`)",
    "partners to be asked yet: %(count)s", "%(days)s days left, renewal at %(at)s", "%(days)s days left, until %(at)s",
    "%(days)s days", "replaced files are not used: %(fault)s", "publishers wait: %(why)s",
    "no further documents are taken for %(partners)s",
    "documents submitted by SQL were refused (%(count)s): `semq failed list`",
    "documents submitted by SQL for %(target)s wait: %(why)s",
    "the process ended with status %(status)s and is started again",
    "Postgres refused a row %(times)s, last %(last)s (%(rule)s, SQLSTATE %(state)s): %(text)s",
    "%(kind)s %(times)s, last %(last)s (%(text)s)", "1 time", "%(count)s times",
    "%(failures)s since %(since)s, paused: %(error)s",
    "%(failures)s since %(since)s, %(count)s spans dropped: %(error)s",
    "%(failures)s since %(since)s: %(error)s", "1 failure", "%(count)s failures in a row",
    "%(loss)s: send fewer, or with @Reliable=1", "%(address)s answers no datagrams: is UDP blocked on the way?",
    "%(part)s of %(count)s documents to it in %(minutes)s minutes lost",
    "%(part)s of %(count)s documents from it in %(minutes)s minutes lost",
    "%(lost)s, and %(full)s dropped by the receiver for lack of room", "%(count)s more in node.status",
    "the node waits for a lock of %(session)s (process %(pid)s of the server)",
    "%(session)s (role %(role)s, process %(pid)s of the server) %(holds)s",
    "holds %(held)s locks of about %(room)s that the server has",
    "has advisory locks, as of received documents, in a transaction open for %(seconds)s s",
)  # fmt: skip
# Terms of an agreement (``umx_t.agreement.agreed_text``)
TERMS = ("%(number)s per minute", "up to %(number)s bytes", "up to %(number)s waiting", "sealed")
# Changes of definitions (``platform_node.definitions.changes``)
CHANGES = (
    "~ node %(node)s: no longer defined; it stays, by the configuration",
    "~ node %(node)s: defined, and in the configuration", "~ users of %(node)s: %(users)s",
    "~ agreements in another order: the first one that fits a document applies",
    "! from now on only documents with an agreement are allowed",
    "! from now on may_send_to of the configuration decides",
)  # fmt: skip
# Details of lines about a message, and parts of those about accepted documents; others are texts of people, and errors
LINE_DETAILS = (
    NOTED, NOBODY, "receipt %(receipt)s, entry %(entry)s, position %(position)s, stated at %(stated)s",
    "copy %(lk1)s", "not before %(time)s", "not before %(time)s, expires at %(until)s",
    "%(delivered)s of %(count)s pieces delivered", "%(count)s pieces", "%(size)s bytes", "piece %(piece)s",
    "manifest of %(document)s", "scheduled as %(lk0)s", "the document of %(lk0)s", "sealed %(key)s",
    "sealed for key %(key)s", "signed with key %(key)s", "member %(number)s of %(members)s of %(lk0)s to %(group)s",
)  # fmt: skip
# Verdict of a check | its description
VERDICT_WORDS = {"ok": "ok", "warning": "needs attention soon", "failing": "does not work"}
# Outcome of a run of the reconciliation (``runs``) | its description
OUTCOMES = {
    "met": "thresholds met", "breached": "threshold exceeded", "partial": "sources or runs are missing or late",
    "missing": "not published: a source is missing", "refused": "not published: an extract cannot be used",
    "running": "running", "failed": "failed",
}  # fmt: skip
# File of a run (``runs.DOWNLOADS``) | its name on the page
FILES = {
    "report.html": "Report", "report.zh.html": "Report in Chinese", "exceptions.xlsx": "Exceptions (Excel)",
    "pairs.xlsx": "Pairs (Excel)", "exceptions.csv": "Exceptions (CSV)", "pairs.csv": "Pairs (CSV)",
    "summary.json": "Summary (JSON)",
}  # fmt: skip
# States and names of acts on many messages (``bulk``)
BULK_STATES = {"running": "running", "done": "done", "failed": "failed", "stopped": "stopped"}
RESULTS = {  # of an act on a message; the console counts all others as done
    "gone": "not found any more",
    "late": "ended or sent meanwhile",
    "again": "refused again",
    "refused": "not sent again: refused before",
    "only_copy": "not refused: their senders keep no payload",
    "marker": "not refused: void markers",
}
LABELS = {name: act.label for name, act in ACTS.items()}
# Part of the state of a node | its name, and its figures in words
NODE_FIGURES: dict[str, tuple[str, Mapping[str, str]]] = {
    "counters": ("Events since the start", COUNTERS),
    "amqp": (
        "Connections of applications and nodes (AMQP)",
        {
            "connections": "connections now", "connections_accepted": "connections accepted",
            "connections_refused": "connections refused, because there were too many",
            "handshakes_failed": "connections that ended before the login", "logins_refused": "logins refused",
            "channels": "channels now", "published": "messages published", "delivered": "messages delivered",
            "queues": "queues now", "messages_ready": "messages in queues that wait for consumers",
            "messages_unacked": "messages delivered and not acknowledged yet",
            "memory_bytes": "memory of the messages in queues",
            "store_pending_bytes": "memory of changes that wait for their commit",
            "alarms": "times that publishers had to wait for memory or disk space",
        },
    ),
    "store": (
        "Writing to the database",
        {
            "units": "transactions", "read_only": "transactions that changed nothing",
            "works": "pieces of work", "failed": "pieces of work that failed", "rows": "new rows",
            "copied": "new rows written by COPY", "load_s": "time spent on reading rows",
            "decide_s": "time spent on decisions", "write_s": "time spent on writing and committing",
            "report_s": "time spent on actions after commits", "largest": "pieces of work in the largest transaction",
            "went_back": "openings of the store after which earlier commits were missing",
        },
    ),
}  # fmt: skip
# Act in the audit log | what it does; acts on many messages begin with "bulk."
ACTS_IN_LOG = {
    "ca.leave": "exclude from the change of the authority", "ca.roll": "change the authority",
    "cert.renew": "renew the certificate", "cert.revoke": "revoke certificates",
    "cert.rotate": "activate the next certificate", "definitions.import": "put definitions in force",
    "failed.park": "park a document", "failed.remove": "remove failed documents",
    "failed.requeue": "requeue failed documents", "held.refuse": "refuse copies", "held.resend": "send copies again",
    "import.ask": "ask about imported documents", "import.received": "note imported documents",
    "job.pause": "pause a job", "job.resume": "resume a job", "job.run": "run a job now",
    "msg.body": "show a payload", "msg.cancel": "cancel a document", "msg.hold": "hold back a document",
    "msg.inquire": "inquire about a document", "msg.release": "release a document",
    "msg.resend": "send a document again", "msg.submit": "submit a document", "document.submit": "submit a document",
    "inbox.receive": "receive documents", "inbox.ack": "acknowledge a document", "inbox.requeue": "return a document",
    "inbox.park": "park a document", "node.drain": "stop accepting documents",
    "node.reload": "reload the configuration", "nodes.rebind": "accept a new store of an institution",
    "nodes.token": "make an enrolment token", "stores.add": "add a store",
    "stores.balance": "balance the homes of institutions", "stores.move": "move institutions",
    "stores.retire": "declare a store lost", "token.create": "make a token", "token.revoke": "revoke a token",
    "trust.add": "trust an authority", "trust.remove": "stop trusting an authority", "user.add": "add a user",
    "user.disable": "disable a user", "user.enable": "enable a user", "user.password": "change a password",
    "user.roles": "change the roles of a user", "sign-in": "sign in", "sign-out": "sign out",
}  # fmt: skip
# Fact of a message, as ``msg.show`` names it | name on the page
FACTS = {
    "outcome": "outcome", "ended_at": "ended at", "ss_status": "status at the sender",
    "status": "status at the receiver", "app_status": "status at the application",
    "state": "status of the submission", "p_ack_status": "acknowledgement to the hub",
    "s_ack_status": "acknowledgement to the sender", "accepted_at": "accepted at", "received_at": "received at",
    "began_at": "accepted at", "expires_at": "expires at", "not_before": "not before", "waits_since": "waits since",
    "failed_at": "failed at", "att": "attempts to send", "deliveries": "deliveries to the application",
    "save_fwd": "delivery class (@SaveFwd)", "ack2": "receipt of the receiver (@Ack2)", "order_key": "order key",
    "sid": "position in the stream", "priority": "priority", "token": "client token",
    "custodian": "store of the hub that has it", "lk1": "copy of the hub (LK1)", "digest": "digest (SHA-256)",
    "origin": "origin", "held": "held back", "parked": "parked", "void": "void marker",
    "lost": "lost with a store of the hub", "group_place": "place in the group",
    "document": "name of the document in pieces", "pieces": "pieces", "piece": "piece of a document",
    "submission": "number of the submission", "store": "store of the hub", "last_event": "last event",
}  # fmt: skip
TABLES: tuple[Mapping[Any, str], ...] = (
    WORDS, messages.WORDS, messages.MARKER_WORDS, messages.DETAIL_WORDS, submissions.WORDS, WAITS, DESCRIPTIONS,
    VERDICT_WORDS, OUTCOMES, FILES, LABELS, BULK_STATES, RESULTS, FIGURES, LATENCIES, FACTS, ACTS_IN_LOG,
    *(words for _name, words in NODE_FIGURES.values()),
)  # fmt: skip


def texts_of_settings() -> Iterator[str]:
    """Yield the meanings and units of the settings of a node."""
    for row in rows():
        if not row.key.startswith("server."):
            yield from filter(None, (row.meaning, row.unit))
    yield from (field.description for field in Settings.model_fields.values() if field.description)


def texts() -> Iterator[str]:
    """Yield every text to translate: the values of TABLES, and the texts of checks and causes."""
    for table in TABLES:
        yield from map(str, table.values())
    for name, step in CHECKS.values():
        yield from (name, step)
    yield OTHER_CHECK[1]
    yield from (*CHECK_DETAILS, *TERMS, *CHANGES, *LINE_DETAILS, LINK_USER)
    yield from (name for name, _words in NODE_FIGURES.values())
    for cause in StuckCause:
        yield from map(str, cause.value)
    yield from texts_of_settings()
