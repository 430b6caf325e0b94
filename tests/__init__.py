"""Tests, opposite the modules name for name. ``kinds`` says what they cost, ``conftest`` what they share."""
