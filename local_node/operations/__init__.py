"""Operations of ``semq.admin``: ``messages``, ``trace`` over all parties, ``failed``, ``certificates``."""
