"""Settings of the engine, with the defaults of PROTOCOL.md section 13."""

from msgspec import Struct


class EngineSettings(Struct, frozen=True):
    """The settings of one engine. Section ``protocol`` of the configuration has keys for some of them."""

    inquiry_s: float = 15.0  #: first interval of inquiries about a row, doubled each time
    inquiry_s_max: float = 300.0  #: longest interval
    inquiry_custody_s_max: float = 3600.0  #: longest interval for messages in custody of the hub
    reconnect_spread_s: float = 5.0  #: the inquiries that a new session makes due are spread over this time
    custody_silence_s: float = 60.0  #: T_cust: silence of the custodian after which the receiver is asked
    window: int = 65_536  #: positions above the floor at which messages of a stream may be sent
    flight: int = 4096  #: unanswered messages to one destination
    credit_messages: int = 8192  #: W: unanswered messages from the hub to one node
    claim_rows: int = 256  #: rows claimed by one piece of work
    claim_bytes: int = 8 * 1024 * 1024  #: bytes of bodies claimed by one piece of work
    ask_rows: int = 250  #: rows read by one piece of work of inquiries
    ask_pause_s: float = 0.05  #: between two pieces of work of inquiries
    ask_custody_per_s: float = 200.0  #: rows with the slower pace (``time.schedule``) that are read per second
    packet_records: int = 500  #: records in one packet
    clean_rows: int = 2000  #: rows deleted by one piece of work
    cleanup_s: float = 1.0  #: interval of cleanups
    expiry_s: float = 1.0  #: shortest interval between searches for expired documents
    expiry_rows: int = 1000  #: expired documents withdrawn by one search
    forward_note_s: float = 1.0  #: delay of Ack-Fwd; an Ack2 in this time replaces it
    #: smallest size of bodies that are written before their rows, and that other documents may overtake
    ahead_bytes: int = 128 * 1024
    quota_rows_per_partner: int = 1_000_000  #: unsettled messages to one partner
    max_document_bytes: int = 64 * 1024 * 1024
    max_large_document_bytes: int = 4 << 30  #: for documents in pieces
    quota_piece_bytes_per_partner: int = 8 << 30  #: bytes of stored pieces from one partner
    deliveries_max: int = 20  #: failed deliveries to the application after which a document is parked
    give_up_after: int = 4  #: answers without an outcome that end a message of class 1 or 2 (rule N22)
    hub_attempts_max: int = 50  #: unsuccessful sends in a session after which a copy is parked
    keep_rejected: bool = True  #: refused documents stay, with their bodies, for an operator
    keep_parked: bool = True  #: parked documents stay for an operator


DEFAULTS = EngineSettings()
