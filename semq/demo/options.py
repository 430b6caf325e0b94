"""The command line of the demo."""

import argparse
from dataclasses import dataclass
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "examples" / "documents"


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    documents: Path = SAMPLES
    count: int | None = None  #: documents in each of the two rounds; None: the folder once
    data_dir: Path | None = None  #: None: a new temporary folder
    keep: bool = False
    stay: bool = False
    json: bool = False
    secure: bool = False  #: TLS and certificates
    patience_s: float = 180.0
    reconcile: bool = True
    inject: bool = False  #: defects into what the reconciliation reads


def read_options(argv: list[str] | None = None) -> Options:
    """Read the command line; ends the process with status 2 if it cannot be understood."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False,
        prog="./run demo",
        description="A hub and two institutions, 10008 and 56001, as processes of their own with databases of their "
        "own. 10008 sends a folder of documents while 56001 is online, then once more while it is away; 56001 comes "
        "back, and in the end 10008 knows that 56001 holds every one of them. Then the three ledgers are compared.",
        epilog="exit status: 0 nothing lost or duplicated and every queue clean; 1 otherwise; 2 usage; 69 a node does "
        "not start; 130 interrupted. Without the packages of the reconciliation that scene is left out",
    )
    add = parser.add_argument
    add("--documents", type=_folder, default=SAMPLES, metavar="DIR", help="any folder of files to send")
    add("--count", type=_count, metavar="N", help="documents in each of the two rounds (the folder is repeated or cut)")
    add("--data-dir", type=Path, metavar="DIR", help="work here instead of in a temporary folder, and keep it")
    add("--keep", action="store_true", help="leave configuration, logs, databases and received files")
    add("--stay", action="store_true", help="leave the nodes running at the end, until Ctrl-C")
    add("--secure", action="store_true", help="TLS links, certificates from the hub, sealed documents, signed extracts")
    add("--json", action="store_true", help="talk on standard error, one JSON object on standard output")
    add("--patience", type=float, default=180.0, metavar="S", help="longest wait for anything, in seconds")
    add("--no-reconcile", action="store_true", help="leave out the reconciliation on Spark at the end")
    add("--inject", action="store_true", help="plant a few defects in what the reconciliation reads: it must find them")
    given = parser.parse_args(argv)
    if given.inject and given.no_reconcile:
        parser.error("--inject is for the reconciliation, which --no-reconcile leaves out")
    return Options(
        documents=given.documents,
        count=given.count,
        data_dir=given.data_dir,
        keep=given.keep or given.data_dir is not None,
        stay=given.stay,
        json=given.json,
        secure=given.secure,
        patience_s=given.patience,
        reconcile=not given.no_reconcile,
        inject=given.inject,
    )


def _folder(text: str) -> Path:
    folder = Path(text)
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return folder


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1")
    return int(text)
