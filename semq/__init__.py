"""SEMQ: store-and-forward delivery of business documents between institutions."""

__version__ = "1.0.0"
