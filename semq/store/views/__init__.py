"""Read-only queries for people and tools: messages, names; what has failed, is held at the hub or was submitted
by SQL.
"""
