"""The statuses of rows and the figures over time, described for people. The console translates the descriptions."""

# Status | its description
WORDS: dict[str, str] = {
    "SS_INIT": "waits to be sent",
    "SS_SENT": "sent",
    "SS_ACK_FWD": "forwarded by the hub",
    "SS_ACK": "stored at the hub",
    "SS_ACK2": "the receiver has it",
    "DELIVERED": "delivered",
    "REJECTED": "rejected",
    "CANCELLED": "cancelled",
    "LOST": "lost with a store of the hub",
    "UNKNOWN": "outcome unknown",
    "DROPPED": "dropped, the target was offline",
    "FORWARDED": "forwarded by the hub",
    "RELEASED": "released by the hub",
    "NEW": "waits for the application",
    "DONE": "the application has it",
    "PARKED": "parked until an operator decides",
    "RECV": "received and recorded",
    "REJ": "received and refused",
    "VOID": "a void marker came first: the document will never be accepted",
    "AS_INIT": "its acknowledgement is not noted yet",
    "AS_ACK": "its acknowledgement is noted",
    "MUST": "must be delivered",
    "SUBMITTED": "submitted by SQL, not processed yet",
    "WAITS": "submitted by SQL, cannot be accepted yet",
    "SCHEDULED": "waits for its time (@NotBefore)",
    "IN_PIECES": "its pieces are sent first",
    "REFUSED": "refused, not sent",
}
# Figure over time or chart | name
FIGURES = {
    "sent": "Sent", "accepted": "accepted", "delivered": "delivered", "failed": "failed", "cancelled": "cancelled",
    "taken": "Received", "received": "received", "processed": "processed", "parked": "parked",
    "passed": "Passed on", "forwarded": "forwarded", "stored": "stored", "refused": "refused", "released": "released",
    "sender": "sent and not ended", "inbox": "received and not processed", "hub": "stored by the hub",
}  # fmt: skip
# Kind of documents with a latency | name of the latency
LATENCIES = {"delivered": "Time to delivery", "processed": "Time in the inbox", "released": "Time at the hub"}
