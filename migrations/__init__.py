"""The history of the schema, as Alembic revisions. Run by ``semq.store.postgres.migration``; the result is described by
``semq.store.tables``.
"""
