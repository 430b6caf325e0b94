"""The statuses of rows, described for people. Used by the command line and the console, which translates them."""

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
    "NEW": "waits for the application",
    "DONE": "the application has it",
    "PARKED": "set aside for a person",
    "RECV": "received and recorded",
    "REJ": "received and refused",
    "VOID": "a void marker: it was cancelled before it arrived",
    "AS_INIT": "not known to be noted",
    "AS_ACK": "noted",
    "MUST": "must be delivered",
    "SUBMITTED": "handed over by SQL, not processed yet",
    "WAITS": "handed over by SQL, cannot be accepted yet",
    "SCHEDULED": "waits for its time (@NotBefore)",
    "REFUSED": "handed over by SQL, refused",
}
