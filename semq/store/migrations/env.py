"""The environment of Alembic. It uses the connection and the transaction of ``semq.store.postgres.migration``."""

from alembic import context

from semq.store.postgres.schema_version import VERSION_TABLE
from semq.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
context.run_migrations()
