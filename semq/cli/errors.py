"""Errors of the command line, codes from 2200 on, and exit statuses; `main` has the table of the statuses."""

from semq.errors import BadInput, Misconfigured, SemqError

EXIT_REFUSED, EXIT_UNAVAILABLE, EXIT_CONFIG, EXIT_INTERRUPTED = 1, 69, 78, 130


class NoNodeNamed(Misconfigured):
    """No node was named."""

    code = "SEMQ-2201"
    remedy = "Give --node amqp://user:password@host:port or --config FILE, or set SEMQ_NODE or SEMQ_CONFIG."


class NoPort(Misconfigured):
    """The configuration does not state the port of its node."""

    code = "SEMQ-2202"
    remedy = "Give --node amqp://user:password@host:port; the node prints its port when it starts."


class OtherNode(Misconfigured):
    """A node other than the configured one answers at this address; no request was sent."""

    code = "SEMQ-2221"
    remedy = (
        "Use the file of the node that answers. Otherwise correct node.id or amqp.port in this file: two nodes on one "
        "machine need different ports."
    )


class UnusableFile(BadInput):
    """The file cannot be read or written."""

    code = "SEMQ-2203"
    remedy = "Check the path and its permissions."


class NoFileNamed(BadInput):
    """No file to send was named."""

    code = "SEMQ-2213"
    remedy = "Give --file FILE, or --file - for standard input; an empty document needs --file - --allow-empty."


class EmptyDocument(BadInput):
    """The document is empty; nothing was sent."""

    code = "SEMQ-2214"
    remedy = "Check the program that writes the file. To send an empty document, give --allow-empty."


class NotWritten(SemqError):
    """Documents could not be written; they were not acknowledged, and wait at the node."""

    code = "SEMQ-2215"
    remedy = (
        "Correct the faults that were printed for each document (free space, permissions), then receive again: these "
        "documents are delivered first."
    )


class UnknownCode(BadInput):
    """No error of SEMQ has this code."""

    code = "SEMQ-2204"
    remedy = "`semq errors list` shows all codes."


class BadTime(BadInput):
    """The value is neither a duration nor a date."""

    code = "SEMQ-2206"
    remedy = "Write a duration (30m, 2h, 7d) or a date (2026-03-31, 2026-03-31T14:00+02:00)."


class NotAHub(Misconfigured):
    """The configuration is for a node that is not a hub."""

    code = "SEMQ-2210"
    remedy = "Run this with the hub's own file (node.kind = platform)."


class NoSpark(Misconfigured):
    """The reconciliation needs packages that are not installed."""

    code = "SEMQ-2207"
    remedy = "`pip install 'WHEEL[spark]'`, with SEMQ's wheel (1 GB on the disk); in a checkout: `./run setup spark`."


class NothingSelected(BadInput):
    """Nothing was selected."""

    code = "SEMQ-2211"
    remedy = "Name documents, or give a filter (--partner, --type, --key) or --all."


class PairsWouldStop(BadInput):
    """Some pairs of institutions could no longer send all documents that they may send now; nothing was imported."""

    code = "SEMQ-2217"
    remedy = "Add an agreement for each pair and type that must continue (`semq definitions diff FILE`), or give --yes."


class NothingGranted(BadInput):
    """No rights were named for the role."""

    code = "SEMQ-2216"
    remedy = "Give one or more of --send, --receive and --read; --revoke removes rights."


class NoApplication(Misconfigured):
    """The named module cannot be imported, or has no handlers."""

    code = "SEMQ-2212"
    remedy = (
        "Correct the error. --app MODULE[:NAME] names a module that Python can import from this folder, and its "
        "semq.app.Handlers."
    )


class TokenForSeveralFiles(BadInput):
    """A token names one document, but several files were given; nothing was sent."""

    code = "SEMQ-2219"
    remedy = "Send each file with a token of its own, or leave out --token."


class BadArgument(BadInput):
    """An argument of the operation does not have the form NAME=VALUE."""

    code = "SEMQ-2218"
    remedy = "`semq call --list OPERATION` lists the arguments; lists and objects are JSON, for instance ids='[\"7\"]'."
