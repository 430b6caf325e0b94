"""SEMQ: store-and-forward delivery of business documents between institutions."""

__version__ = "0.1.0"
