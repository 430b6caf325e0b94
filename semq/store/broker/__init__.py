"""The durable part of the broker: the port (``operations``), its ``store`` and ``statements`` on Postgres."""
