"""The token of a file, by which the node accepts it once and its outcome finds it: ``DAY-DIGEST``.

The token is the same after a crash, and another one after the file was moved. Its day, that of the file's last
modification, is the file's folder in ``sent``; the end of its digest distinguishes files of one name.
"""

import re
from hashlib import sha256

from semq.folders.layout import Offered, day_text

DIGEST_LENGTH, MARK_LENGTH = 40, 12
_FORM = re.compile(rf"(\d{{4}}-\d\d-\d\d)-[0-9a-f]{{{DIGEST_LENGTH}}}")


def token_of(file: Offered, digest: str) -> str:
    """Return the token of a file whose content has this digest; without a digest for a file that cannot be sent."""
    identity = f"{digest}\n{file.path}\n{file.modified_ns}\n{file.changed_ns}"
    of_identity = sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:DIGEST_LENGTH]
    return f"{day_text(file.modified_ns)}-{of_identity}"


def day_of_token(token: str) -> str:
    """Return the day of a token; empty if the document is not from a folder."""
    form = _FORM.fullmatch(token)
    return form[1] if form else ""


def mark_of(token: str) -> str:
    """Return what distinguishes the file of this token from another one of its name."""
    return token[-MARK_LENGTH:]
