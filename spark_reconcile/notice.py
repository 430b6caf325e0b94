"""The message to people after a night: by mail with the report, and to a webhook as JSON."""

import json
import os
import smtplib
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

import httpx

from semq.translations import used
from spark_reconcile.language import _, headline, report_name
from spark_reconcile.report.banner import OUTCOMES
from spark_reconcile.run.runs import SUMMARY
from spark_reconcile.settings import MailServer, ReconcileSettings
from spark_reconcile.storage import Place

TIMEOUT_S = 30.0
WORK_MAX = 50  # rows of work in a message
_JSON_MAX = 64 << 20
Result = Mapping[str, Any]  # of a date, as in ``commands``; a row of work; a summary


def send(settings: ReconcileSettings, results: Sequence[Result]) -> list[str]:
    """Send the results of a night's dates, the newest last, as configured; return what went wrong, in words."""
    faults = []
    with used(settings.language):
        try:
            if settings.mail is not None:
                _post_mail(settings.mail, letter(settings, settings.mail, results))
        except (OSError, smtplib.SMTPException) as error:
            faults.append(f"The report was not sent by mail: {error}")
        try:
            if settings.webhook:
                facts = {**results[-1], "headline": subject(results[-1]), "work": _work(results[-1])[:WORK_MAX]}
                httpx.post(settings.webhook, json=facts, timeout=TIMEOUT_S).raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            faults.append(f"The webhook did not take the result: {error}")
    return faults


def letter(settings: ReconcileSettings, mail: MailServer, results: Sequence[Result]) -> EmailMessage:
    """Return the mail about a night: the result, the work, other dates, and the page of the newest date."""
    newest = results[-1]
    message = EmailMessage(SMTP.clone(max_line_length=200))  # a folded subject would begin with a space
    message["From"], message["To"] = mail.sender, ", ".join(mail.to)
    message["Subject"] = f"SEMQ {newest['business_date']}: {subject(newest)}"
    lines = [subject(newest), *filter(None, [_outcome(newest), newest.get("error")]), ""]
    for row in _work(newest)[:WORK_MAX]:
        whose = " ".join(f"{node} {settings.names.get(node, '')}".strip() for node in row["nodes"]) or _(row["role"])
        verdicts = ", ".join(f"{_(word)} ({name}) {count}" for name, word, count in row["verdicts"])
        calls = (_("Call %(contact)s.") % {"contact": contact} for contact in row.get("contacts", ()))
        lines += [f"{row['documents']}  {whose}: {verdicts}", f"    {_(row['text'])} {row['command']}".rstrip()]
        lines += [f"    {call}" for call in calls]
    for gap in _summary(newest).get("absent", [])[:WORK_MAX]:
        lines.append(f"{gap['messages']}  {_(gap['source'])}: {_(gap['word'])} {gap['business_date']}")
        lines.append(f"    {_(gap['text'])} {gap['command']}".rstrip())
    lines += [f"{each['business_date']}: {_outcome(each) or each['outcome']}" for each in results[:-1]]
    message.set_content("\n".join([*lines, "", str(newest.get("report", ""))]) + "\n")
    page = _folder(newest) / report_name(settings.language)
    if newest.get("report") and page.exists():
        name = f"{newest['business_date']}-{page.name}"
        message.add_attachment(page.read(_JSON_MAX), maintype="text", subtype="html", filename=name)
    return message


def subject(result: Result) -> str:
    """Return the result of a date in one sentence."""
    summary = _summary(result)
    if not summary:
        return _("the reconciliation failed")
    need = summary["need_work"]
    return headline(need["date"], need["earlier"], summary["messages"])


def _outcome(result: Result) -> str:
    return _(OUTCOMES[result["outcome"]][2]) if result["outcome"] in OUTCOMES else ""


def _work(result: Result) -> list[Result]:
    rows: list[Result] = _summary(result).get("work", [])
    return rows


def _summary(result: Result) -> Result:
    content: Result = json.loads((_folder(result) / SUMMARY).read(_JSON_MAX)) if result.get("report") else {}
    return content


def _folder(result: Result) -> Place:
    return Place.at(str(result.get("report", "")).rpartition("/")[0])


def _post_mail(mail: MailServer, message: EmailMessage) -> None:
    with smtplib.SMTP(mail.server, mail.port, timeout=TIMEOUT_S) as server:
        if mail.starttls:
            server.starttls()
        if mail.user:
            server.login(mail.user, os.environ.get(mail.password_variable, ""))
        server.send_message(message)
