"""Acts of persons (``acts``: cancel, expire, hold, release), and stuck messages (``stuck``: causes and next steps)."""
