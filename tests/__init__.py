"""Tests, with the names of their modules. ``kinds`` has their costs, ``conftest`` the shared fixtures."""
