"""Tests of the library for applications; the nodes that they talk to are those of ``network``."""
