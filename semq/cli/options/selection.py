"""The selection of a command that acts on named documents, or on those that its filters or ``--all`` select."""

from collections.abc import Sequence

import typer


def refuse_names_with_selection(ids: Sequence[str] | None, *, is_selected: bool) -> None:
    """Raise BadParameter if documents are named and others are selected: neither may be ignored."""
    if ids and is_selected:
        raise typer.BadParameter("Name documents, or select them by filters or --all, not both.", param_hint="ID")
