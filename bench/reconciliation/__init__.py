"""Measurements of the reconciliation: ``nightly_job`` beside the same comparison in DuckDB and Postgres.

``sql`` has the comparison as plain SQL, ``engines`` runs one of the three as a process.
"""
