"""Tests. A test file has the name of the module that it tests (``test_frames`` for ``frames``).

``selection.kinds`` has the costs of tests, ``conftest`` the shared fixtures.
"""
