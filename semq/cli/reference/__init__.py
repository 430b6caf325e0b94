"""Commands that need no node: ``error_codes`` has ``errors``, ``version`` has ``version`` and ``completion``."""
