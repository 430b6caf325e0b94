"""Names and values of the configuration that are needed before, or without, its checked settings."""

HOST, PORT = "127.0.0.1", 5672  # where a node listens by default
PREFIX, NESTED = "SEMQ_", "__"  # of environment variables
