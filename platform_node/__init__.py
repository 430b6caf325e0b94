"""The platform: the hub that joins the institutions' nodes. Wiring and policy; what it does is
``semq.engine.hub_engine``."""
