"""Tests. A test has the name of its module. ``kinds`` has the costs of tests, ``conftest`` the shared fixtures."""
