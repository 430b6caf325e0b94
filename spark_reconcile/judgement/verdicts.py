"""The verdicts: meaning, responsible party and next step of each, and the grid that gives exactly one to every message.

The first row of the grid that fits the situation gives the finding and the verdict. A cell lists the words that fit; a
dot means every word. The last column names the remarks that must hold, and with ``!`` those that must not.
"""

from functools import cache
from typing import NamedTuple

from spark_reconcile.judgement.situation import (
    HUB_BIT,
    HUBS,
    RECEIVER_BIT,
    RECEIVERS,
    REMARK_BIT,
    REMARKS,
    SENDERS,
    Situation,
    bit,
)


class Verdict(NamedTuple):
    """A row of the verdict table. Kinds: fine, open (may resolve by itself), exception (an operator must act)."""

    name: str
    word: str
    kind: str
    carried: bool  #: whether runs of later dates judge the message again
    owner: str
    meaning: str
    next_step: str


# fmt: off
VERDICTS = (
    Verdict("MATCHED", "matched", "fine", False, "nobody",
            "Sender, hub and receiver agree on the outcome, and every acknowledgement was noted.",
            "Nothing."),
    Verdict("IN_FLIGHT", "on its way", "open", True, "nobody",
            "At the end of the evidence, its last step is still within its time limit.",
            "No action: the next run decides."),
    Verdict("WAITING_OFFLINE", "waiting for its receiver", "open", True, "receiver",
            "The hub keeps it for a receiver that was not online; without a hub, its sender does.",
            "If it waits for long, ask the receiver when its node comes online."),
    Verdict("DROPPED_BY_POLICY", "dropped as asked", "fine", False, "nobody",
            "Class 1: discarded because the target was offline, as its sender asked.",
            "Nothing."),
    Verdict("REFUSED", "refused", "fine", False, "sender",
            "A responsible party refused it, and the sender's application was notified.",
            "Correct the document or the agreement and submit it again."),
    Verdict("LOST_BEST_EFFORT", "lost, as its class allows", "fine", False, "sender",
            "Class 1 or 2, sent once and lost, as these classes allow.",
            "No action, or send such documents as class 3."),
    Verdict("PARKED", "set aside", "exception", True, "receiver",
            "Set aside after too many failures, by the receiver's application or by the hub.",
            "Find the cause of the failure, correct it and requeue."),
    Verdict("MISSING_AT_HUB", "not seen at the hub", "exception", True, "sender",
            "The sender has accepted it, and neither hub nor receiver has a trace of it.",
            "Inquire; the sender resends by itself."),
    Verdict("NOT_DELIVERED", "not delivered", "exception", True, "hub",
            "It left its sender or the hub, and the receiver never recorded it.",
            "Inquire; the party that holds it resends."),
    Verdict("ACK_NOT_RETURNED", "confirmation missing", "exception", True, "receiver",
            "The receiver recorded it or a party refused it, and the waiting party does not know.",
            "Acknowledge again, or inquire."),
    Verdict("REACK_NOT_RETURNED", "last confirmation missing", "exception", True, "sender",
            "All have it; only the receiver lacks the confirmation of its acknowledgement.",
            "The receiver inquires."),
    Verdict("DUPLICATE_DELIVERED", "delivered twice", "exception", False, "receiver",
            "The receiver recorded it more than once.",
            "Tell the receiver's application; compare the two records."),
    Verdict("DIGEST_MISMATCH", "different contents", "exception", False, "both ends",
            "The same document was seen with different bytes.",
            "Stop: compare the two documents and find the party that changed one."),
    Verdict("UNKNOWN_ORIGIN", "unknown origin", "exception", False, "sender",
            "Hub or receiver has it, and the ledger of its sender has no line about it.",
            "Look for a forged document or a restored sender."),
    Verdict("STATE_CONTRADICTION", "records contradict", "exception", False, "analyst",
            "The statements of two ledgers contradict each other.",
            "Read its history in the report; look for a restored store or an altered ledger."),
    Verdict("QUARANTINED", "unreadable record", "exception", False, "analyst",
            "A ledger line about it is unreadable or outside its dates.",
            "Extract the date again at that node, and check the line."),
    Verdict("SOURCE_MISSING", "ledger missing", "open", True, "its source",
            "No verdict is possible: a ledger that should mention it was not delivered.",
            "Obtain the missing extract and run again."),
)
# fmt: on

# Abbreviations in cells of the grid.
ABBREVIATIONS = {
    "open": "accepted|sent|forwarded|stored",  # sender: no final outcome
    "moved": "sent|forwarded|stored",
    "passed": "forwarded|released|returned|direct",  # hub: no further task
    "given_up": "returned|returning",  # by an operator of the hub
    "taken": "received|parked",  # receiver: recorded with the payload
    "recorded": "received|parked|rejected|void",
    "nothing": "none|missing",
}

GRID = """
finding                  verdict              sender                 hub                  receiver        if

line_unreadable          QUARANTINED          .                      .                    .               unreadable
line_out_of_range        QUARANTINED          .                      .                    .               out_of_range
locator_unreadable       QUARANTINED          .                      .                    .               locator
two_targets              STATE_CONTRADICTION  .                      .                    .               two_targets

turned_away              REFUSED              refused                none|direct|missing  nothing         .
refused_by_hub           REFUSED              rejected               refused              nothing         .
refused_untold           REFUSED              accepted|sent          refused              nothing         untold
refusal_on_its_way       IN_FLIGHT            open                   refused              nothing         young
sender_source_missing    SOURCE_MISSING       open                   refused              nothing         sender_away
refusal_not_returned     ACK_NOT_RETURNED     open                   refused              nothing         .
dropped_at_sender        DROPPED_BY_POLICY    dropped                .                    nothing         !promised
dropped_at_hub           DROPPED_BY_POLICY    accepted|sent|unknown  dropped              nothing         !promised

not_yet_at_sender        IN_FLIGHT            none                   refused              nothing         ahead
not_at_sender            UNKNOWN_ORIGIN       none                   refused              nothing         .
sender_source_missing    SOURCE_MISSING       missing                .                    .               .
hub_source_missing       SOURCE_MISSING       .                      missing              .               .
receiver_source_missing  SOURCE_MISSING       .                      .                    missing         .

not_yet_at_sender        IN_FLIGHT            none                   .                    .               ahead
not_at_sender            UNKNOWN_ORIGIN       none                   .                    .               .
other_bytes              DIGEST_MISMATCH      .                      .                    .               mismatch
recorded_twice           DUPLICATE_DELIVERED  .                      .                    .               twice
recorded_elsewhere       STATE_CONTRADICTION  .                      .                    .               astray
two_outcomes             STATE_CONTRADICTION  torn                   .                    .               .
two_records              STATE_CONTRADICTION  .                      .                    mixed           .
traces_without_record    STATE_CONTRADICTION  .                      .                    traces          .
refused_yet_moved        STATE_CONTRADICTION  refused                .                    .               .
promise_dropped          STATE_CONTRADICTION  dropped                .                    .               .
promise_dropped_at_hub   STATE_CONTRADICTION  .                      dropped              .               .
delivered_yet_refused    STATE_CONTRADICTION  delivered              .                    rejected|void   .
rejected_yet_recorded    STATE_CONTRADICTION  rejected               .                    taken           .
cancelled_yet_recorded   STATE_CONTRADICTION  cancelled              .                    taken|rejected  .
lost_yet_recorded        STATE_CONTRADICTION  lost                   .                    taken|rejected  .
refused_yet_recorded     STATE_CONTRADICTION  .                      refused              recorded        .

refused_by_receiver      REFUSED              rejected               .                    rejected        .
ended_by_marker          REFUSED              rejected               .                    void            .
returned                 REFUSED              rejected|unknown       given_up             none|void       .
returned_untold          REFUSED              open                   given_up             none            untold
cancelled                MATCHED              cancelled              .                    void            .
declared_lost            NOT_DELIVERED        lost                   .                    none|void       .
gave_up_too_early        ACK_NOT_RETURNED     unknown                .                    recorded        .
gave_up                  LOST_BEST_EFFORT     unknown                .                    none            best_effort
unknown_for_ever         NOT_DELIVERED        unknown                .                    none            .
parked_by_application    PARKED               .                      .                    parked          .
parked_at_hub            PARKED               .                      parked               none            .
refused_by_receiver_untold  REFUSED           open                   passed               rejected  untold,!owes,!kept
all_agree                MATCHED              delivered              passed               received        !owes,!kept
all_agree_untold         MATCHED              open                   passed               received  untold,!owes,!kept
target_offline           WAITING_OFFLINE      open                   stored               none            .
marker_waits             WAITING_OFFLINE      open                   returned             none            .
on_its_way               IN_FLIGHT            .                      .                    .               young

sender_source_missing    SOURCE_MISSING       open                   passed               received   sender_away,!untold
sender_source_missing    SOURCE_MISSING       open                   passed               rejected|void  sender_away
sender_source_missing    SOURCE_MISSING       open                   returning            none            sender_away
hub_source_missing       SOURCE_MISSING       .                      stored|sent|parked|returning  recorded  hub_away
hub_source_missing       SOURCE_MISSING       delivered              passed               received        kept,hub_away
receiver_source_missing  SOURCE_MISSING       delivered              passed               received   receiver_away,!kept
receiver_source_missing  SOURCE_MISSING       open                   passed         received  untold,receiver_away,!kept

hub_keeps_a_copy         ACK_NOT_RETURNED     delivered              passed               received        kept
hub_keeps_a_copy         ACK_NOT_RETURNED     open                   passed               received        untold,kept
reack_not_noted          REACK_NOT_RETURNED   delivered              passed               received        .
reack_not_noted          REACK_NOT_RETURNED   open                   passed               received        untold
hub_has_no_trace         STATE_CONTRADICTION  .                      none                 recorded        .
hub_uninformed           ACK_NOT_RETURNED     delivered              stored|sent|parked|returning  received  .
return_not_noted         ACK_NOT_RETURNED     open                   returning            none            .
sender_uninformed        ACK_NOT_RETURNED     open                   .                    recorded        .
cancelled_unsent         MATCHED              cancelled              none|direct          none        best_effort,unsent
ended_unsent             REFUSED              rejected               none|direct          none        best_effort,unsent
end_without_record       STATE_CONTRADICTION  cancelled|rejected     .                    none            .
settled_without_record   STATE_CONTRADICTION  delivered              .                    none            .
unreceipted_and_lost     STATE_CONTRADICTION  open                   released             none            untold
released_without_record  STATE_CONTRADICTION  .                      released             none            .
lost_on_its_way          LOST_BEST_EFFORT     moved                  none|forwarded|direct  none          best_effort
waits_at_sender          WAITING_OFFLINE      accepted               direct               none            no_hub
never_sent               MISSING_AT_HUB       accepted               none|direct          none            .
hub_forgot               MISSING_AT_HUB       forwarded|stored       none                 none            .
never_arrived            MISSING_AT_HUB       sent                   none                 none            .
sent_to_no_avail         NOT_DELIVERED        .                      sent                 none            .
forwarded_to_no_avail    NOT_DELIVERED        .                      forwarded|direct     none            .
"""

# Finding: what it means in addition to the verdict; the side that can repair it, and the deed (``repair_list``);
# both empty if no node can.
FINDINGS = {
    "line_unreadable": (
        "A line does not agree with schema version 1: it has wrong or missing values, or is in the wrong ledger.",
        "",
        "",
    ),
    "line_out_of_range": ("A line's time lies outside the dates that its manifest states.", "", ""),
    "locator_unreadable": ("The source locator LK0 cannot be read.", "", ""),
    "refusal_not_returned": ("The hub refused it; its sender still waits.", "sender", "inquire"),
    "not_at_sender": ("No line of the sender, though its ledger was delivered.", "", ""),
    "other_bytes": ("The digests differ, or a node reported the mismatch itself.", "", ""),
    "recorded_twice": ("Two records of the same source locator.", "", ""),
    "recorded_elsewhere": ("A node that is not its target recorded it, or wrote about it as its receiver.", "", ""),
    "two_targets": ("Its lines name different targets.", "", ""),
    "two_outcomes": ("The sender reported two final outcomes.", "", ""),
    "two_records": ("The receiver made two records of different kinds.", "", ""),
    "traces_without_record": ("The receiver acted on it, but has no line that records it.", "", ""),
    "refused_yet_moved": ("The sender refused it, yet other ledgers have it.", "", ""),
    "promise_dropped": ("It was dropped, although its class does not allow that.", "sender", "inquire"),
    "promise_dropped_at_hub": ("The hub dropped it, although its class does not allow that.", "sender", "inquire"),
    "delivered_yet_refused": ("The outcome at the sender is delivered; the receiver recorded no payload.", "", ""),
    "rejected_yet_recorded": ("The outcome at the sender is rejected; the receiver recorded it.", "", ""),
    "cancelled_yet_recorded": ("The outcome at the sender is cancelled; the receiver recorded it.", "", ""),
    "lost_yet_recorded": ("The outcome at the sender is lost; the receiver recorded it.", "", ""),
    "refused_yet_recorded": ("The hub refused it, the receiver recorded it.", "", ""),
    "declared_lost": (
        "Its sender declared it lost: the store of the hub with the only copy was lost.",
        "sender",
        "close",
    ),
    "gave_up_too_early": ("The sender reported the outcome as unknown; the receiver recorded it.", "sender", "close"),
    "unknown_for_ever": (
        "The sender reported the outcome as unknown; the receiver never recorded it.",
        "sender",
        "close",
    ),
    "returned": ("An operator of the hub refused its stored copy; the hub's ledger has the reason.", "", ""),
    "returned_untold": (
        "An operator of the hub refused its stored copy; its sender had not asked for a receipt.",
        "",
        "",
    ),
    "marker_waits": ("An operator of the hub refused its stored copy; a void marker waits for the receiver.", "", ""),
    "return_not_noted": (
        "An operator of the hub refused its stored copy; its sender does not know.",
        "sender",
        "inquire",
    ),
    "parked_by_application": ("The receiver's application or an operator has set it aside.", "", ""),
    "parked_at_hub": ("The target never answered the hub.", "hub", "inquire"),
    "reack_not_noted": ("Only the last confirmation is missing.", "receiver", "inquire"),
    "hub_has_no_trace": (
        "The receiver has it, and the hub has no line: it was killed after forwarding it, or a ledger was altered.",
        "",
        "",
    ),
    "hub_uninformed": ("The hub still keeps a copy that the receiver has recorded.", "receiver", "reack"),
    "hub_keeps_a_copy": (
        "The hub stored it twice and does not know that one of the copies was delivered.",
        "hub",
        "inquire",
    ),
    "sender_uninformed": ("The receiver has recorded it; its sender still waits.", "receiver", "reack"),
    "end_without_record": (
        "It was cancelled or refused, and the receiver, probably restored, has no record of that. No side expects it.",
        "",
        "",
    ),
    "settled_without_record": (
        "The sender has a receipt, the receiver no record of it: it was lost, probably by a restored store.",
        "sender",
        "submit",
    ),
    "unreceipted_and_lost": (
        "The hub released its copy, the receiver has no record of it, and its sender no longer waits: it was lost.",
        "sender",
        "submit",
    ),
    "released_without_record": ("The hub released its copy; the receiver has no record of it.", "sender", "inquire"),
    "waits_at_sender": (
        "Without a hub: accepted and not yet sent. Its receiver is offline, or it is held or scheduled.",
        "",
        "",
    ),
    "never_sent": ("Accepted and never sent: its link was down, or it is held or scheduled.", "sender", "resend"),
    "hub_forgot": ("The hub confirmed it to the sender and has no line about it.", "sender", "inquire"),
    "never_arrived": ("Sent, and not seen at the hub.", "sender", "inquire"),
    "sent_to_no_avail": ("The hub sent its stored copy, and the receiver never recorded it.", "hub", "inquire"),
    "forwarded_to_no_avail": (
        "It was forwarded or sent directly, and the receiver never recorded it.",
        "sender",
        "inquire",
    ),
}

AskedRemark = tuple[str, bool]  # a remark, and whether it must hold


class VerdictRule(NamedTuple):
    """A row of the grid: it fits a situation if ``picture & asked == wanted``."""

    finding: str
    verdict: str
    asked: int  #: bits of excluded words and of named remarks
    wanted: int  #: bits of the remarks that must hold

    def fits(self, situation: Situation) -> bool:
        return situation.picture & self.asked == self.wanted


def _read(grid: str) -> tuple[VerdictRule, ...]:
    names = {verdict.name for verdict in VERDICTS}
    rules = []
    for line in grid.strip().splitlines()[1:]:
        if not line.strip():
            continue
        finding, verdict, sender, hub, receiver, remark_cell = line.split()
        if verdict not in names:
            raise ValueError(f"{finding}: no verdict {verdict}")
        excluded = (
            _unlisted(sender, SENDERS, 0),
            _unlisted(hub, HUBS, HUB_BIT),
            _unlisted(receiver, RECEIVERS, RECEIVER_BIT),
        )
        remarks = _remarks(remark_cell)
        named = sum(bit(REMARKS, remark, REMARK_BIT) for remark, _ in remarks)
        wanted = sum(bit(REMARKS, remark, REMARK_BIT) for remark, holds in remarks if holds)
        rules.append(VerdictRule(finding, verdict, sum(excluded) + named, wanted))
    return tuple(rules)


def _unlisted(cell: str, words: tuple[str, ...], first: int) -> int:
    """Return the bits of the words that a cell excludes. ``first``: number of the first word's bit."""
    full = "|".join(ABBREVIATIONS.get(part, part) for part in cell.split("|"))
    listed = frozenset(words if cell == "." else full.split("|"))
    if not listed <= set(words):
        raise ValueError(f"no such word: {listed - set(words)}")
    return sum(bit(words, word, first) for word in words if word not in listed)


def _remarks(cell: str) -> tuple[AskedRemark, ...]:
    remarks = tuple((part.lstrip("!"), not part.startswith("!")) for part in cell.split(",") if part != ".")
    if not {remark for remark, _ in remarks} <= set(REMARKS):
        raise ValueError(f"no such remark: {cell}")
    return remarks


RULES = _read(GRID)
VERDICT = {verdict.name: verdict for verdict in VERDICTS}
EXCEPTIONS = tuple(verdict.name for verdict in VERDICTS if verdict.kind == "exception")

# Order of urgency: wrong documents, lost documents, messages with a waiting party, all others.
URGENCY = (
    "DIGEST_MISMATCH", "UNKNOWN_ORIGIN", "DUPLICATE_DELIVERED", "NOT_DELIVERED", "MISSING_AT_HUB",
    "STATE_CONTRADICTION", "PARKED", "ACK_NOT_RETURNED", "QUARANTINED", "REACK_NOT_RETURNED", "SOURCE_MISSING",
    "WAITING_OFFLINE", "IN_FLIGHT", "LOST_BEST_EFFORT", "REFUSED", "DROPPED_BY_POLICY", "MATCHED",
)  # fmt: skip


@cache
def judge(situation: Situation) -> VerdictRule:
    """Return the first row of the grid that fits. The rows cover all situations."""
    return next(rule for rule in RULES if rule.fits(situation))


SUBMIT_AGAIN = "Ask the sender to submit it again."


class FindingRow(NamedTuple):
    """A row of FINDINGS; a finding without a row has empty texts."""

    meaning: str = ""
    side: str = ""
    deed: str = ""


def finding_of(name: str) -> FindingRow:
    """Return the row of a finding."""
    return FindingRow(*FINDINGS.get(name, ()))


def acting_role(finding: str, verdict: str) -> str:
    """Return the role that has to act: that of the finding's deed if it has one, else that of the verdict."""
    return finding_of(finding).side or VERDICT[verdict].owner


def next_step(finding: str, verdict: str) -> str:
    """Return the next step: that of the finding if it has one of its own, else that of the verdict."""
    return SUBMIT_AGAIN if finding_of(finding).deed == "submit" else VERDICT[verdict].next_step


def advice(finding: str, verdict: str) -> str:
    """Return the meaning of the finding, if FINDINGS has it, and the next step."""
    return f"{finding_of(finding).meaning} {next_step(finding, verdict)}".strip()
