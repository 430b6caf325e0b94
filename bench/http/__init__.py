"""Measurements of the web process.

| module       | subject                                                       |
|--------------|---------------------------------------------------------------|
| pages        | submissions over HTTP, and pages of the console               |
| large_tables | a node's database with many messages and lines                |
| client       | an HTTP client that needs little processor time               |
"""
