"""Names and values of the configuration that are needed without settings."""

HOST, PORT = "127.0.0.1", 5672  # default address of a node
NODE_TYPES = {"local": 1, "platform": 2}  # UMX node type by node.kind
PREFIX, NESTED = "SEMQ_", "__"  # prefix and separator in names of environment variables
