"""Measurements of the reconciliation.

| module      | subject                                                            |
|-------------|--------------------------------------------------------------------|
| nightly_job | the command: generates ledgers, and runs each engine on them       |
| engines     | one engine (Spark, DuckDB or Postgres) as a process                |
| sql         | the comparison as plain SQL, for DuckDB and Postgres               |
| invention   | generated ledgers with known defects, of any size                  |
"""
