"""An institution's node: applications on one side, the platform on the other. Wiring.

What it does is ``semq.engine.local``.
"""
