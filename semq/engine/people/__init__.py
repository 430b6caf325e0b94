"""What a person does and sees: ``acts`` (cancel, expire, hold, release) and ``stuck`` (causes and next steps)."""
