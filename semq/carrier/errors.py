"""Faults of the carrier: of its configuration, and of what arrives on it."""

from semq.errors import BadInput, Unavailable


class ForeignBatch(BadInput):
    """A message on the carrier was not made by an instance of this hub, or not for this queue."""

    code = "SEMQ-1264"
    remedy = "Find out who else has credentials of the carrier. The message was dropped and had no effect."


class StoreServedElsewhere(Unavailable):
    """Another instance consumes the queue of this store on the carrier."""

    code = "SEMQ-1265"
    remedy = "Two instances have one semq_id and semq_db_id, or the former one has not ended yet; it is tried again."
