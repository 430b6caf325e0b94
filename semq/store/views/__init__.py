"""Read-only queries for people and tools: messages, names, failed documents, copies held at the hub, submissions by
SQL.
"""
