"""Operations of ``semq.admin`` at the hub: ``definitions``, ``held`` copies, ``registration`` of nodes, ``stores``."""
