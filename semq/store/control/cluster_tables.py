"""Tables of a hub with several instances, used in its control database: identity, stores, homes, instances."""

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Double, Integer, LargeBinary, Table, Text, Uuid

from semq.store.tables import col, metadata, moment

hub_identity = Table(
    "hub_identity",
    metadata,
    col("single", Boolean, "true", key=True),
    col("hub", Text),
    col("hub_id", Uuid),
    col("carrier_key", LargeBinary),  # authenticates messages between instances
    CheckConstraint("single", name="one_row"),
)
hub_store = Table(
    "hub_store",
    metadata,
    col("semq_id", Integer, key=True),
    col("semq_db_id", Integer, key=True),
    col("store_uuid", Uuid, null=True),  # null until an instance has opened it
    col("weight", Double, "1"),
    moment("added_at", "now()"),
    col("boot", BigInteger, "0"),  # with the next two columns: the newest known state of the store
    col("chain_place", BigInteger, "0"),
    col("chain_count", BigInteger, "0"),
    CheckConstraint("weight >= 0", name="known_weight"),
)
node_home = Table(
    "node_home",
    metadata,
    col("node", Text, key=True),
    col("semq_id", Integer),
    col("semq_db_id", Integer),
    moment("since", "now()"),
)
hub_instance = Table(
    "hub_instance",
    metadata,
    col("life", BigInteger, key=True),
    col("semq_id", Integer),
    col("semq_db_id", Integer),
    col("host", Text),
    col("endpoint", Text),
    moment("started_at", "now()"),
    moment("until"),
)
