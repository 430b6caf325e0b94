"""Errors of the carrier."""

from semq.errors import BadInput, Unavailable


class ForeignBatch(BadInput):
    """A batch on the carrier is not from an instance of this hub, or not for this queue, or cannot be read."""

    code = "SEMQ-1264"
    remedy = (
        "Find out which other party has credentials of the carrier, unless the instances have different versions. The "
        "batch or message was dropped and had no effect."
    )


class StoreServedElsewhere(Unavailable):
    """Another instance consumes the queue of this store on the carrier."""

    code = "SEMQ-1265"
    remedy = (
        "Two instances have the same semq_id and semq_db_id, or the former instance has not ended yet. This instance "
        "tries again."
    )
