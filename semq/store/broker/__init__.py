"""The durable part of the broker: the interface (``operations``); ``store`` and ``statements`` for Postgres."""
