"""The history of the schema, as Alembic revisions. ``semq.store.postgres.migration`` runs them.

``semq.store.tables`` and the modules ``*_tables`` of ``semq.store`` and ``semq.store.control`` describe the resulting
schema.
"""
