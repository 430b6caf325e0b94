"""Errors of the engine, codes 1200–1299."""

from semq.errors import BadInput, ProtocolViolation, SemqError, Unavailable


class UnknownTarget(BadInput):
    """The hub knows no such institution, or it is no partner of this one."""

    code = "SEMQ-1201"
    remedy = (
        "Check the number of the target; the hub's operator adds institutions and agreements"
        " (`semq definitions import`)."
    )


class TargetNotAllowed(BadInput):
    """No agreement allows this institution to send to that target."""

    code = "SEMQ-1202"
    remedy = "Ask the hub's operator for an agreement with this partner (`semq definitions`), or for may_send_to."


class DocumentTooLarge(BadInput):
    """The document is larger than this node accepts."""

    code = "SEMQ-1203"
    remedy = "Split or compress it, or raise protocol.max_document_bytes at the sender, the hub and the receiver."


class QuotaReached(Unavailable):
    """Too many documents wait for this partner; this one was not accepted, nothing was dropped."""

    code = "SEMQ-1204"
    remedy = (
        "Submit it again when the partner has received more of them (`semq queue partners`); or raise "
        "protocol.quota_rows_per_partner."
    )


class Withdrawn(Unavailable):
    """A document published before this one on the same channel was refused; this one was not accepted."""

    code = "SEMQ-1239"
    remedy = "Publish it again on a new channel, with its @Token if it has one."


class TokenReused(BadInput):
    """The client token was used before for other content."""

    code = "SEMQ-1205"
    remedy = "Use a new token for a new document; repeat a token only with the same bytes."


class Expired(BadInput):
    """The time of the document (@ExpiresAt) has passed."""

    code = "SEMQ-1206"
    remedy = (
        "If it is still wanted, submit it with a later @ExpiresAt (milliseconds since 1970 UTC), or without one; "
        "an expired document keeps its body (`semq msg body NAME`)."
    )


class NotThere(BadInput):
    """There is no such document, or it has ended and was deleted."""

    code = "SEMQ-1207"
    remedy = (
        "`semq msg list` shows names. A node knows only what it sent, received or forwarded; the hub finds an AppKey "
        "only while it holds a copy. Ask the sender or the receiver, too. Documents that ended more than "
        "database.ledger_days ago are unknown."
    )


class TooLate(BadInput):
    """The document has ended; its outcome can no longer be changed."""

    code = "SEMQ-1208"
    remedy = "`semq msg show NAME` and `semq msg trace NAME` show how it ended."


class AlreadySent(BadInput):
    """The document has been sent: it cannot be held or released, nor, with @SaveFwd=1 or 2, cancelled or sent again."""

    code = "SEMQ-1226"
    remedy = (
        "`semq msg cancel NAME --why TEXT` keeps one with @SaveFwd=3 from being delivered, if it has not arrived "
        "yet; `semq msg trace NAME` shows where it is."
    )


class NotEnded(BadInput):
    """Only a document that has ended can be removed; this one has not."""

    code = "SEMQ-1227"
    remedy = "`semq msg cancel NAME --why TEXT` ends it; `semq stuck explain NAME` says what it waits for."


class NotAccepted(BadInput):
    """This node has not accepted the document (submitted by SQL, scheduled, or in pieces): there is no message yet."""

    code = "SEMQ-1224"
    remedy = (
        "`semq msg show` says what it waits for, or why it was refused; `semq msg cancel` withdraws one that waits, "
        "`semq failed requeue` and `semq failed remove` act on a refused one."
    )


class WaitsBehind(Unavailable):
    """The document, submitted by SQL, waits because an earlier one for its target or order key waits, too."""

    code = "SEMQ-1229"
    remedy = (
        "`semq_status(NUMBER)` or `semq msg show sql-NUMBER`, with the number of the earlier one, says why it waits."
    )


class PayloadGone(BadInput):
    """This node no longer has the payload of the document: the hub took custody of it, or a void marker replaced it."""

    code = "SEMQ-1225"
    remedy = (
        "`semq msg trace` shows where the payload is: at the hub while the hub stores it, afterwards at the receiver."
    )


class Cancelled(BadInput):
    """The document was cancelled before it arrived."""

    code = "SEMQ-1210"
    remedy = "No action is needed: the receiver never gets it. Submit it again if it is still wanted."


class TypeNotAllowed(BadInput):
    """No agreement with this partner covers documents of this type."""

    code = "SEMQ-1211"
    remedy = "Compare domain and type of @AppKey with the agreement (`semq definitions export` at the hub)."


class SealRequired(BadInput):
    """The agreement with this partner requires sealed documents, and this one is in clear."""

    code = "SEMQ-1212"
    remedy = "Set @Encrypt=1; the sender's node needs the partner's certificate from the hub's directory."


class TooFast(Unavailable):
    """The agreement with this partner does not allow so many documents a minute."""

    code = "SEMQ-1213"
    remedy = "Submit it again a little later; the same client token makes a repeat safe."


class RefusedByOperator(BadInput):
    """An operator of the hub has refused this document after the hub had stored it; the text says why."""

    code = "SEMQ-1214"
    remedy = (
        "Ask the hub's operator if the text is not enough. A document whose sender asked for a receipt keeps its "
        "body (`semq failed list`, `semq msg body`): submit it again if it is still wanted."
    )


class StoreInUse(BadInput):
    """The hub uses this store, so an operator cannot declare it lost."""

    code = "SEMQ-1215"
    remedy = "`semq hub stores list` names the stores; a lost one has the state `not here`, and nodes ask about it."


class GroupRefused(BadInput):
    """The document was not accepted for some members of the group, so it was accepted for none."""

    code = "SEMQ-1236"
    remedy = (
        "Remove the cause (`semq errors lookup CODE` explains each code), or send to the other members by themselves."
    )


class GroupWaits(Unavailable):
    """Some members of the group cannot take the document now, or are unknown yet, so it was accepted for none."""

    code = "SEMQ-1237"
    remedy = (
        "Submit it again later (`semq queue partners` shows what waits), or send to the other members by themselves."
    )


class NotYours(ProtocolViolation):
    """A node made a statement for another node, or about a message that was not addressed to it."""

    code = "SEMQ-1220"


class Mismatch(ProtocolViolation):
    """A message arrived again with other bytes; the recorded one stays, this copy is not accepted."""

    code = "SEMQ-1221"
    remedy = "Compare the digests in `semq msg trace`; one of the two nodes or stores changed a document."


class BeyondWindow(ProtocolViolation):
    """A message lies outside the window of its stream, or below the floor that it states; it was not recorded."""

    code = "SEMQ-1222"
    remedy = (
        "Nothing is lost: it is sent again when the window has moved. If this continues, set "
        "the same protocol.window at both nodes."
    )


class BodyUnreadable(SemqError):
    """The stored envelope of this document cannot be read: it was altered, is gone, or is locked with another key."""

    code = "SEMQ-1223"
    remedy = "Restore the database from a backup; or ask the sender to submit the document again, and remove this one."


class Stopping(Unavailable):
    """The node is being stopped and accepts nothing more."""

    code = "SEMQ-1230"
    remedy = "Submit again when the node runs; the same client token makes a repeat safe."


class DirectoryTooLarge(ProtocolViolation):
    """The hub lists more partners, agreements or members of groups than this node keeps; the node ignores the rest."""

    code = "SEMQ-1270"
    remedy = (
        "The hub alone judges documents to partners beyond the bound; groups beyond it are refused. Ask the hub's "
        "operator for fewer agreements and smaller groups."
    )


class IntroducedTooOften(ProtocolViolation):
    """A node has presented its certificates too often; the last ones were not processed."""

    code = "SEMQ-1271"
    remedy = (
        "Nothing is lost: its certificates are processed again after a minute or at its next login. If it continues, "
        "ask its operator why the node presents certificates so often."
    )


class PieceNotDelivered(BadInput):
    """A piece of the document was not delivered, so the document cannot be delivered."""

    code = "SEMQ-1231"
    remedy = "The facts say why. After removing the cause, `semq failed requeue` sends the remaining pieces."


class PiecesQuotaReached(BadInput):
    """The receiver's quota for this sender's documents in pieces is used up; the piece was refused."""

    code = "SEMQ-1234"
    remedy = (
        "Ask the receiver to take the documents that wait there, or to raise protocol.quota_piece_bytes_per_partner; "
        "then `semq failed requeue` at the sender sends the pieces that are left."
    )


class WaitsForPieces(BadInput):
    """The document is released when its pieces have arrived at its receiver, not before."""

    code = "SEMQ-1233"
    remedy = "Wait, or cancel it: `semq msg cancel`."


class InPieces(BadInput):
    """The document is in pieces, so one answer cannot contain its body."""

    code = "SEMQ-1235"
    remedy = "`semq msg body NAME` writes the body to standard output, in parts (operation `msg.body`, `offset`)."


class PiecesMissing(BadInput):
    """Not all pieces of the document are at its receiver, so no application can get it."""

    code = "SEMQ-1232"
    remedy = "The sender has to submit the document again; `semq failed remove` removes a parked one at the receiver."


class HeaderExceedsFrame(BadInput):
    """The headers of the document are too large for the frames of the client that could receive it."""

    code = "SEMQ-1238"
    remedy = (
        "Connect the application with a larger frame-max (131,072 bytes are enough for every document), then "
        "`semq failed requeue`."
    )


class StoreStatementUnreadable(ProtocolViolation):
    """At its login, the node stated its store or process in a wrong form."""

    code = "SEMQ-1253"


class TooManyLogins(Unavailable):
    """The node logs in too often; it has to wait a few seconds."""

    code = "SEMQ-1255"
    remedy = (
        "Nothing is lost, the node logs in again by itself. Its log has the reason for the end of "
        "its link (`uplink_lost`); two processes with one identity are another cause."
    )
