"""The history of the schema, as Alembic revisions. ``semq.store.postgres.migration`` runs them."""
