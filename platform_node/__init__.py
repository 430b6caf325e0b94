"""The hub, which connects the institutions' nodes: wiring and policy around ``semq.engine.hub_engine``."""
