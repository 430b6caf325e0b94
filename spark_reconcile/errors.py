"""Errors of the reconciliation, with their exit codes.

    SemqError
    ├── BadInput
    │   ├── BadExtract          65
    │   ├── BadRepairList       65
    │   └── BadRunRequest        2
    ├── Unavailable
    │   ├── SourcesMissing       4
    │   ├── NoSuchRun            4
    │   ├── BeingRun             5
    │   ├── NoJava              69
    │   ├── LedgerAway          69
    │   ├── SparkAway           69
    │   └── StorageAway         69
    ├── SparkFailed              1
    └── Misconfigured
        └── BadSettings         78

The number is ``exit_code``, the exit code of the command line.
"""

from typing import ClassVar

from semq.errors import BadInput, Misconfigured, SemqError, Unavailable


class BadExtract(BadInput):
    """An extract cannot be used; nothing was published."""

    code = "SEMQ-6001"
    remedy = "Extract the date again at the named node, or run with --allow-partial to ignore it."
    exit_code: ClassVar[int] = 65


class BadRunRequest(BadInput):
    """The request cannot be carried out as given."""

    code = "SEMQ-6002"
    exit_code: ClassVar[int] = 2


class SourcesMissing(Unavailable):
    """A required source has not delivered its extract; nothing was published."""

    code = "SEMQ-6003"
    remedy = (
        "Have the node deliver its extract (`semq reconcile extract`) into the folder `extracts`: `semq reconcile "
        "collect` brings extracts there, --extracts names another folder. Or run with --allow-partial and without "
        "--require-all."
    )
    exit_code: ClassVar[int] = 4


class NoSuchRun(Unavailable):
    """There is no such run, or no such repair list."""

    code = "SEMQ-6004"
    remedy = "`semq reconcile status` lists the runs of every business date."
    exit_code: ClassVar[int] = 4


class BeingRun(Unavailable):
    """Another process reconciles this business date or writes this extract; nothing was changed."""

    code = "SEMQ-6005"
    remedy = "Wait until the other process has ended; `semq reconcile status` shows the result of a run."
    exit_code: ClassVar[int] = 5


class NoJava(Unavailable):
    """No Java was found that Spark can use."""

    code = "SEMQ-6006"
    remedy = (
        "Install a Java runtime (17, 21, or 25.0.3 and later), or the `spark` extra of this project, which brings one."
    )
    exit_code: ClassVar[int] = 69


class LedgerAway(Unavailable):
    """The ledger of this node cannot be read."""

    code = "SEMQ-6007"
    remedy = "Check the database URL and that the schema is up to date (`semq db check`)."
    exit_code: ClassVar[int] = 69


class BadSettings(Misconfigured):
    """The settings of the reconciliation cannot be used."""

    code = "SEMQ-6008"
    remedy = "Correct the tables [reconcile] and [extract] of the configuration."
    exit_code: ClassVar[int] = 78


class SparkAway(Unavailable):
    """Spark does not start."""

    code = "SEMQ-6009"
    remedy = "Spark's messages above give the reason. Check --master, --memory, and the free memory of the machine."
    exit_code: ClassVar[int] = 69


class SparkFailed(SemqError):
    """Spark failed in a step of this run; earlier publications are unchanged."""

    code = "SEMQ-6010"
    remedy = "Check disk space, memory, and access to the storage; the run's _RESULT.json has more of Spark's message."
    exit_code: ClassVar[int] = 1


class BadRepairList(BadInput):
    """The repair list cannot be used; nothing was done."""

    code = "SEMQ-6011"
    remedy = (
        "Copy the whole `repair` folder of the run again from the hub's operator. Its signature is "
        "checked against the authorities of [reconcile] trust, else those that this node trusts (`semq cert trust`)."
    )
    exit_code: ClassVar[int] = 65


class StorageAway(Unavailable):
    """A folder of extracts or reports cannot be read or written."""

    code = "SEMQ-6012"
    remedy = "Check the named disk or share: free space, permissions, mount. Then repeat."
    exit_code: ClassVar[int] = 69
