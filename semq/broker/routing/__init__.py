"""The way from an exchange to queues: ``exchanges`` by type, ``topic`` and ``headers_match`` as indexes, ``routes``."""
