"""The history of the schema, as Alembic revisions. ``semq.store.postgres.migration`` runs them.

``semq.store.tables`` and the modules ``*_tables`` beside it describe the resulting schema.
"""
