"""How Alembic runs the revisions: on the connection and in the transaction that ``semq.store.migrate`` gives."""

from alembic import context

from semq.store.migrate import VERSION_TABLE
from semq.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
context.run_migrations()
