"""The history of the schema, as Alembic revisions. Run by ``semq.store.postgres.migration``; what it ends with is
``semq.store.tables``."""
