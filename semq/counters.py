"""The counters of the engines; shown by ``semq node status --counters`` and in metrics.

All counters begin at 0 when the engine starts. Most have the name of an event of the ledger.
"""

# Counter | what it counts
COUNTERS: dict[str, str] = {
    # at the sender
    "accepted": "accepted from applications",
    "refused": "refused: submissions of applications; at a hub also documents that may not be sent",
    "nacked": "refused temporarily (basic.nack); the publisher may repeat them",
    "submission_refused": "submissions by SQL that were refused",
    "submission_withdrawn": "submissions by SQL that were withdrawn before they were accepted",
    "scheduled": "accepted for a later time (@NotBefore)",
    "delivered": "delivered: the receiver has them",
    "rejected": "rejected by the receiver or the hub",
    "cancelled": "ended by their void markers",
    "lost": "lost with a store of the hub",
    "unknown": "ended without a known outcome",
    "dropped": "dropped, because the target was offline",
    "corrected": "outcomes corrected by later evidence",
    "sealed_again": "refused documents sent again as new messages, with newer keys",
    "custody_lost": "times that a store of the hub was found to have lost copies",
    # at the hub
    "forwarded": "forwarded to targets that are online",
    "bare": "new signatures of copies that this store does not have",
    "stored": "stored for targets that are offline or busy",
    "beyond_limit": "void markers and later attempts beyond a limit, which were not answered and are sent again",
    "refused_by_operator": "stored copies that an operator refused",
    "ack_other": "acknowledgements from the wrong node, or for another message than the stored copy",
    "packets_dropped": "packets of other nodes that were dropped, because their target reads too slowly",
    "carried": "passed to the instance that serves the home of their target",
    "carrier_returned": "messages between instances that came back, because no instance serves that store",
    "carrier_repeated": "batches between instances that had arrived before",
    "carrier_unproved": "batches of instances that have not answered this one yet (at a start), or captured ones",
    "carrier_dropped": "documents from other instances that were dropped, because the link to their target was full",
    "unknown_packet": "packets of a kind that this version does not know",
    # at the receiver
    "received": "received and recorded",
    "duplicate": "duplicates dropped",
    "signer_awaited": "messages and receipts ignored, because the certificate of their signer had not arrived",
    "floor_ignored": "floors of unknown streams ignored",
    "answer_late": "answers of applications to documents that have left the queue",
    "answer_failed": "answers of applications that could not be recorded; the documents are delivered again",
    # at every node
    "inquired": "inquiries sent",
    "cleaned": "rows deleted from the queues",
    "unreadable": "rows whose stored message cannot be read; they wait until an operator decides",
    "disbelieved": "statements ignored, because their proof was missing or wrong",
    "violation": "violations of the protocol by peers; refused",
}
