"""Tests of platform_node."""
