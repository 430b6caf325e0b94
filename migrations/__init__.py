"""The history of the schema, as Alembic revisions. Run by ``semq.store.migrate``; what it ends with is
``semq.store.tables``."""
