"""The files with certificates, keys and secrets that a configuration names, and what becomes of a replaced one.

A node examines all of them in intervals, also those that its companions use: health and metrics foretell the end of
each certificate, and show files that cannot be used.
"""

import asyncio
import ssl
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from semq.answers.status import FileStatus
from semq.clock import Clock
from semq.config.settings import Settings
from semq.moments import utc_text
from semq.service.clockwork import ScheduledJob
from semq.transport.tls_files import no_passphrase

CERTIFICATE, AUTHORITIES, KEY, SECRET = "certificate", "authorities", "key", "secret"
EXAMINE_S = 60.0  # between two examinations

CONNECTION = "the next connection"
IDENTITY = "the next check of the node's certificate (seconds)"
RELOAD = "the next load of a key"
EXTRACT = "the next extract"
START = "the next start"


class CredentialFile(NamedTuple):
    """A setting that names a file."""

    setting: str  #: section and key; ``*``: each table of the section
    content: str
    used_from: str  #: when a replaced file is used


#: All settings that name files of this kind. ``tls.dir`` is a folder, which only SEMQ writes (``NodeIdentity``).
TABLE = (
    CredentialFile("http.certificate", CERTIFICATE, CONNECTION),
    CredentialFile("http.key", KEY, CONNECTION),
    CredentialFile("http.client_authorities", AUTHORITIES, CONNECTION),
    CredentialFile("server.certificate", CERTIFICATE, CONNECTION),
    CredentialFile("server.key", KEY, CONNECTION),
    CredentialFile("tls.trust", AUTHORITIES, IDENTITY),
    CredentialFile("tls.passphrase_file", SECRET, RELOAD),
    CredentialFile("cluster.trust", AUTHORITIES, CONNECTION),
    CredentialFile("telemetry.trust", AUTHORITIES, CONNECTION),
    CredentialFile("webhooks.*.trust", AUTHORITIES, CONNECTION),
    CredentialFile("webhooks.*.certificate", CERTIFICATE, CONNECTION),
    CredentialFile("webhooks.*.key", KEY, CONNECTION),
    CredentialFile("secrecy.bodies_key_file", SECRET, START),  # bodies in the database need the former secret
    CredentialFile("extract.salt_file", SECRET, EXTRACT),
)


class NamedFile(NamedTuple):
    """A file that a configuration names."""

    setting: str
    path: Path
    content: str


class FileFinding(NamedTuple):
    """The state of one file."""

    setting: str
    file: str
    fault: str = ""  #: why it cannot be used; empty if it can
    not_after: datetime | None = None  #: the first end of a certificate in it

    def status(self, now: datetime) -> FileStatus:
        ends = self.not_after
        return FileStatus(
            setting=self.setting,
            file=self.file,
            fault=self.fault,
            not_after=utc_text(ends) if ends is not None else "",
            days_left=round((ends - now) / timedelta(days=1), 2) if ends is not None else None,
        )


def named_files(settings: Settings) -> Iterator[NamedFile]:
    """Yield the files that a configuration names."""
    for row in TABLE:
        section_name, *numbered, key = row.setting.split(".")
        if section_name == "server":  # of a virtual server; its institutions know the certificate
            sections: list[tuple[str, object]] = []
            if key == CERTIFICATE and settings.port_certificate is not None:
                yield NamedFile(row.setting, settings.port_certificate, row.content)
        elif numbered:
            sections = [(f"{section_name}.{n}", each) for n, each in enumerate(getattr(settings, section_name))]
        else:
            sections = [(section_name, getattr(settings, section_name))]
        for name, section in sections:
            path = getattr(section, key, None) if section is not None else None
            if path is not None:
                yield NamedFile(f"{name}.{key}", path, row.content)


def examine(settings: Settings) -> list[FileFinding]:
    """Return the state of each file that a configuration names."""
    files = list(named_files(settings))
    paths = {file.setting: file.path for file in files}
    return [_examine(file, paths.get(f"{file.setting.rpartition('.')[0]}.{KEY}")) for file in files]


def _examine(file: NamedFile, key: Path | None) -> FileFinding:
    """``key``: the file with the key of a certificate; None: in the same file, or unknown."""
    setting, path = file.setting, str(file.path)
    try:
        content = file.path.read_bytes()
        if file.content not in (CERTIFICATE, AUTHORITIES):
            return FileFinding(setting, path, "" if content.strip() else "the file is empty")
        certificates = x509.load_pem_x509_certificates(content)
        if file.content == CERTIFICATE and (key is not None or b"PRIVATE KEY" in content):
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file.path, key, password=no_passphrase)
    except OSError as error:  # also SSLError
        return FileFinding(setting, path, getattr(error, "reason", None) or error.strerror or str(error))
    except ValueError:
        return FileFinding(setting, path, "no certificates in PEM form")
    ends = [each.not_valid_after_utc for each in certificates]
    # All of a chain must be valid. Of several authorities the former ones may end: they were kept for an overlap.
    return FileFinding(setting, path, "", min(ends) if file.content == CERTIFICATE else max(ends))


class CredentialFiles:
    """The state of the files of a running node."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._findings: list[FileFinding] = []

    def jobs(self) -> list[ScheduledJob]:
        """Examine the files, and return the job that repeats this."""
        self._findings = examine(self.settings)
        return [ScheduledJob("credential files", EXAMINE_S, self._repeat)]

    async def _repeat(self) -> None:
        self._findings = await asyncio.to_thread(examine, self.settings)

    def status(self) -> list[FileStatus]:
        return [finding.status(self._clock.wall()) for finding in self._findings]
