"""The message to people after a night: by mail with the report, and to a webhook as JSON."""

import os
import smtplib
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import httpx

from semq.translations import used
from spark_reconcile.extracts.manifest import canonical
from spark_reconcile.language import _, headline, report_name
from spark_reconcile.report.banner import OUTCOMES
from spark_reconcile.run.runs import SUMMARY, read_json
from spark_reconcile.settings import MailServer, ReconcileSettings
from spark_reconcile.storage import Place

TIMEOUT_S = 30.0
WORK_MAX = 50  # rows of work in a message
SENT_FILE = "_sent.json"  # beside the dates: for each way, the identity of the result last sent of each date
_PAGE_MAX = 64 << 20
Result = Mapping[str, Any]  # of a date, as in ``commands``; a row of work; a summary


def send(settings: ReconcileSettings, results: Sequence[Result]) -> list[str]:
    """Send what was not sent before, as configured; return what went wrong, in words.

    ``results``: those of the dates that a night looks at, the newest last. A result that could not be sent is sent by
    the next night; one that stays the same, such as a source that is missing for days, is sent once.
    """
    place = Place.at(settings.reports) / SENT_FILE
    sent = read_json(place)
    faults = []
    with used(settings.language):
        for way, is_configured, post, fault in (
            ("mail", settings.mail is not None, _post_mail, "The report was not sent by mail"),
            ("webhook", bool(settings.webhook), _post_webhook, "The webhook did not take the result"),
        ):
            before = sent.get(way, {})
            unsent = [result for result in results if before.get(result["business_date"]) != _identity(result)]
            if not is_configured or not unsent:
                continue
            try:
                post(settings, unsent)
            except (OSError, smtplib.SMTPException, httpx.HTTPError, httpx.InvalidURL) as error:
                faults.append(f"{fault}: {error}")
                continue
            sent[way] = {result["business_date"]: _identity(result) for result in results}
            place.write(canonical(sent))
    return faults


def _identity(result: Result) -> str:
    """Return the name of a date's run, or how it failed."""
    return str(result.get("run") or f"{result['outcome']} {result['exit_code']}")


def letter(settings: ReconcileSettings, mail: MailServer, results: Sequence[Result]) -> EmailMessage:
    """Return the mail about a night: the result, the work, other dates, and the page of the newest date."""
    newest = results[-1]
    summary = _summary(newest)
    subject = _subject(summary)
    message = EmailMessage(SMTP.clone(max_line_length=200))  # a folded subject would begin with a space
    message["From"], message["To"] = mail.sender, ", ".join(mail.to)
    message["Subject"] = f"SEMQ {newest['business_date']}: {subject}"
    lines = [subject, *filter(None, [_outcome(newest), newest.get("error")]), ""]
    for row in summary.get("work", [])[:WORK_MAX]:
        whose = " ".join(f"{node} {settings.names.get(node, '')}".strip() for node in row["nodes"]) or _(row["role"])
        verdicts = ", ".join(f"{_(word)} ({name}) {count}" for name, word, count in row["verdicts"])
        calls = (_("Call %(contact)s.") % {"contact": contact} for contact in row.get("contacts", ()))
        lines += [f"{row['documents']}  {whose}: {verdicts}", f"    {_(row['text'])} {row['command']}".rstrip()]
        lines += [f"    {call}" for call in calls]
    for gap in summary.get("absent", [])[:WORK_MAX]:
        if "text" not in gap:  # in summaries of earlier versions
            continue
        lines.append(f"{gap['messages']}  {_(gap['source'])}: {_(gap['word'])} {gap['business_date']}")
        lines.append(f"    {_(gap['text'])} {gap['command']}".rstrip())
    lines += [f"{each['business_date']}: {_outcome(each) or each['outcome']}" for each in results[:-1]]
    message.set_content("\n".join([*lines, "", str(newest.get("report", ""))]) + "\n")
    page = _folder(newest) / report_name(settings.language)
    if newest.get("report") and page.exists():
        name = f"{newest['business_date']}-{page.name}"
        message.add_attachment(page.read(_PAGE_MAX), maintype="text", subtype="html", filename=name)
    return message


def _subject(summary: Result) -> str:
    """Return the result of a date in one sentence. ``summary``: empty if the run has failed."""
    if not summary:
        return _("the reconciliation failed")
    need = summary["need_work"]
    return headline(need["date"], need["earlier"], summary["messages"])


def _outcome(result: Result) -> str:
    return _(OUTCOMES[result["outcome"]][2]) if result["outcome"] in OUTCOMES else ""


def _summary(result: Result) -> Result:
    return read_json(_folder(result) / SUMMARY) if result.get("report") else {}


def _folder(result: Result) -> Place:
    return Place.at(str(result.get("report", "")).rpartition("/")[0])


def _post_mail(settings: ReconcileSettings, results: Sequence[Result]) -> None:
    mail = settings.mail
    assert mail is not None
    with smtplib.SMTP(mail.server, mail.port, timeout=TIMEOUT_S) as server:
        if mail.starttls:
            server.starttls()
        if mail.user:
            server.login(mail.user, os.environ.get(mail.password_variable, ""))
        server.send_message(letter(settings, mail, results))


def _post_webhook(settings: ReconcileSettings, results: Sequence[Result]) -> None:
    newest = results[-1]
    summary = _summary(newest)
    facts = {**newest, "headline": _subject(summary), "work": summary.get("work", [])[:WORK_MAX]}
    httpx.post(settings.webhook, json=facts, timeout=TIMEOUT_S).raise_for_status()
