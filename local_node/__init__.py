"""An institution's node: connects applications, store, link and ``semq.engine.local_engine``."""
