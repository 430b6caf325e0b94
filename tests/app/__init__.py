"""Tests of the library for applications, with the nodes of ``network``."""
