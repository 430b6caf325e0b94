"""An institution's node: applications on one side, the platform on the other. Wiring; what it does is ``semq.engine.local``."""
