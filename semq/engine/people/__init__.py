"""Acts on a node's own messages (``acts``), and stuck messages (``stuck``: causes and next steps)."""
