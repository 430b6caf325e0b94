"""An institution's node: wires applications, store, link and ``semq.engine.local_engine`` together."""
