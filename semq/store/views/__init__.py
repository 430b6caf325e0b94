"""Read-only queries for people and tools: messages, names; what failed, is held at the hub or came by SQL."""
