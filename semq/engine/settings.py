"""Settings of the engine, with the defaults of PROTOCOL.md section 13."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The settings of one engine. Section ``protocol`` of the configuration sets those that are keys of it."""

    inquiry_s: float = 15.0  #: first interval of inquiries about a row, doubled each time
    inquiry_s_max: float = 300.0  #: longest interval
    inquiry_custody_s_max: float = 3600.0  #: longest interval for messages in custody of the hub
    reconnect_spread_s: float = 5.0  #: inquiries that a new session makes due are spread over this time
    custody_silence_s: float = 60.0  #: T_cust: if the custodian is silent for so long, the receiver is asked instead
    window: int = 65_536  #: positions per stream beyond the floor
    flight: int = 4096  #: messages to one destination that are sent and not yet answered
    credit_messages: int = 8192  #: W: messages that the hub has sent to one node and that are not answered
    claim_rows: int = 256  #: rows claimed by one piece of work
    claim_bytes: int = 8 * 1024 * 1024  #: bytes of bodies claimed by one piece of work
    ask_rows: int = 250  #: rows read by one piece of work of inquiries; documents wait meanwhile
    ask_pause_s: float = 0.05  #: pause between two such pieces of work, which limits the inquiries on a link
    ask_custody_per_s: float = 200.0  #: rows read a second that are in custody, or whose acknowledgements are complete
    packet_records: int = 500  #: records in one transport packet
    clean_rows: int = 2000  #: rows deleted by one piece of work
    cleanup_s: float = 1.0  #: interval of cleanups
    expiry_s: float = 1.0  #: shortest interval between searches for expired documents
    expiry_rows: int = 1000  #: expired documents withdrawn by one search
    forward_note_s: float = 1.0  #: delay of Ack-Fwd; an Ack2 in this time makes it superfluous
    ahead_bytes: int = 128 * 1024  #: a body of at least this size is written before its row; others may overtake it
    quota_rows_per_partner: int = 1_000_000  #: unsettled rows per partner
    max_document_bytes: int = 64 * 1024 * 1024
    max_large_document_bytes: int = 4 << 30  #: largest document in pieces
    quota_piece_bytes_per_partner: int = 8 << 30  #: stored bytes of pieces per source
    deliveries_max: int = 20  #: after so many failed deliveries to the application a document is parked
    give_up_after: int = 4  #: answers without an outcome that end a message of class 1 or 2 (rule N22)
    hub_attempts_max: int = 50  #: a copy that its target has not recorded after so many sends in a session is parked
    keep_rejected: bool = True  #: refused documents stay, with their bodies, until an operator has dealt with them
    keep_parked: bool = True  #: likewise received documents that the application or this node cannot process


DEFAULTS = EngineSettings()
