"""Errors of folders, codes 1340-1349."""

from semq.errors import BadInput, Misconfigured, Unavailable


class BadPlace(BadInput):
    """The file is not in a folder that names a target."""

    code = "SEMQ-1340"
    remedy = "Put files into out/TARGET, out/TARGET/TYPE or out/TARGET/TYPE/SUBTYPE, then move this file back to out."


class FileTooLarge(BadInput):
    """The file is larger than the largest permitted document."""

    code = "SEMQ-1341"
    remedy = "Raise protocol.max_large_document_bytes at both institutions' nodes, or split the file."


class FileUnreadable(BadInput):
    """The file cannot be read."""

    code = "SEMQ-1342"
    remedy = "Give the user of the node the right to read it, then move it back to out."


class BadName(BadInput):
    """The name of the file, or of a folder that contains it, is not UTF-8."""

    code = "SEMQ-1345"
    remedy = "Rename the file or folder, then move the file back to out."


class FolderInUse(Unavailable):
    """Another process serves this folder."""

    code = "SEMQ-1343"
    remedy = "End the process that the fact `pid` names. A node with [[folders]] starts this program itself."


class FolderUnusable(Misconfigured):
    """The folder cannot be written."""

    code = "SEMQ-1344"
    remedy = "Correct `path` in [[folders]], or give the user of the node the right to write there."


class RootReplaced(Unavailable):
    """The folder is not the one that was served before: its file system is not mounted, or it was replaced."""

    code = "SEMQ-1346"
    remedy = (
        "Mount the file system of the folder; until then its documents wait at the node. If the folder was replaced on"
        " purpose, delete the file that the fact `known` names: the present folder is served then."
    )


class LargerThanDisk(BadInput):
    """The document is larger than the file system of the folder."""

    code = "SEMQ-1347"
    remedy = "Give the folder a larger file system, then `semq failed requeue NAME`; or `semq failed remove NAME`."


class DocumentNotWritten(BadInput):
    """The document could not be written into its folder, although others could."""

    code = "SEMQ-1348"
    remedy = "Correct the cause, then `semq failed requeue NAME`; or `semq failed remove NAME`."


class IgnoredFiles(BadInput):
    """Files in ``out`` are not sent."""

    code = "SEMQ-1349"
    remedy = "Replace links by files, finish or remove the others; the log has the reason for each (`file_ignored`)."
