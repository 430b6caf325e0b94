"""How Alembic runs a revision: on the connection and in the transaction that ``semq.store.postgres.migration``
gives."""

from alembic import context

from semq.store.postgres.migration import VERSION_TABLE
from semq.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
context.run_migrations()
