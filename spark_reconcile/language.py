"""The languages of reports, and the sentence with which page, mail and console begin. Needs no Spark and no Arrow."""

from pathlib import Path

from semq.translations import ENGLISH, Languages

LANGUAGES = Languages([Path(__file__).parent / "translations"])
_ = LANGUAGES.gettext


def headline(date: int, earlier: int, of: int) -> str:
    """Return the result in one sentence.

    ``date``, ``earlier``: documents of this date and of earlier dates that need work. ``of``: documents of this date.
    """
    counts = {"count": f"{date:,}", "of": f"{of:,}", "earlier": f"{earlier:,}"}
    if date + earlier == 0:
        return _("None of %(of)s documents needs work") % counts
    text = _("%(count)s of %(of)s documents need work") % counts
    return text + (_(", and %(earlier)s of earlier dates") % counts if earlier else "")


def report_name(language: str) -> str:
    """Return the name of the page in a language."""
    return "report.html" if language == ENGLISH else f"report.{language}.html"
