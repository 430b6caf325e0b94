"""The manifest of an extract: period, files and signature. It is written last; without it there is no extract."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Annotated

import msgspec

from semq.umx_t.address import NodeType
from spark_reconcile.days import Calendar, Window, parse_date
from spark_reconcile.errors import BadExtract, BadRunRequest, BadSettings
from spark_reconcile.extracts.schema import SCHEMA_VERSION

MANIFEST_FILE = "_manifest.json"
_HOUR_MS = 3_600_000
SKEW_MAX_MS = 8760 * _HOUR_MS  # one year
MANIFEST_MAX = 1 << 20  # bytes
FILES_MAX = 4096
_NODE = re.compile(r"[0-9]{1,3}\.[A-Za-z0-9_-]{1,64}")
_STORE = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}")
_PART = re.compile(r"part-[0-9A-Za-z-]{1,100}\.parquet")
_SHA256 = re.compile(r"[0-9a-f]{64}")

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class ExtractPart(msgspec.Struct, frozen=True):
    """One Parquet file of an extract."""

    name: str
    rows: Count
    bytes: Count
    sha256: str


class Signature(msgspec.Struct, frozen=True):
    """The signature of a manifest, or of a run's index of repair lists."""

    key_id: str
    algorithm: str
    value: str  #: base64
    certificate: str = ""  #: of the key, DER in base64


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of _manifest.json. Unknown fields are tolerated."""

    schema_version: int = SCHEMA_VERSION
    node: str
    store: str = "1.1"
    role: str = "local"  #: local or platform
    business_date: str
    zone: str
    cutoff: str
    window_start: int  #: milliseconds since 1970 UTC, inclusive
    window_end: int  #: exclusive
    watermark: int  #: time up to which the ledger is complete
    rows: Count
    files: tuple[ExtractPart, ...]
    #: lowest and highest ``seq`` and ``at`` of the rows; None without rows
    seq_first: int | None = None
    seq_last: int | None = None
    at_first: int | None = None
    at_last: int | None = None
    clock_skew_ms: int | None = None  #: this node's clock minus the hub's; None if not known
    semq_version: str = ""
    created_at: str = ""
    signature: Signature | None = None

    @property
    def source(self) -> str:
        """The name of the ledger, such as 1.10008.1.1."""
        return f"{self.node}.{self.store}"

    @property
    def is_hub(self) -> bool:
        return self.node.startswith(f"{int(NodeType.PLATFORM)}.")

    @property
    def day(self) -> date:
        return date.fromisoformat(self.business_date)

    @property
    def window(self) -> Window:
        return Window(self.window_start, self.window_end)

    def signed_bytes(self) -> bytes:
        """Return the bytes to sign: all except the signature and the time of creation, in a fixed order."""
        bare = msgspec.structs.replace(self, signature=None, created_at="")
        return msgspec.json.encode(bare, order="sorted")

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


Sign = Callable[[bytes], Signature]
# Whether a signature is that of a node. Arguments: node (``repair_list.HUB``: any node of the hub), signed bytes,
# signature, and earliest time of signing (milliseconds since 1970 UTC; None: the certificate must be valid now).
Verify = Callable[[str, bytes, Signature, int | None], bool]


def folder_of(node: str, store: str) -> str:
    """Return the name of a ledger's folder, in the folder of the business date.

    Its key is not a column of the extract: readers that derive columns from folders keep both.
    """
    return f"ledger={node}.{store}"


def date_folder(day: date) -> str:
    """Return the folder name of a business date."""
    return f"business_date={day.isoformat()}"


def read_manifest(content: bytes) -> Manifest:
    """Read and check a manifest. Raises BadExtract with ``state`` UNKNOWN_SCHEMA or MANIFEST_WRONG."""
    if len(content) > MANIFEST_MAX:
        raise _wrong("it is too long for a manifest")
    try:
        raw = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong("it is not JSON") from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise BadExtract("The schema version is not known.", state="UNKNOWN_SCHEMA", schema_version=str(version)[:20])
    try:
        manifest = msgspec.convert(raw, Manifest)
    except msgspec.ValidationError as error:
        raise _wrong(str(error)[:200]) from error
    fault = _fault(manifest)
    if fault:
        raise _wrong(fault)
    return manifest


def _wrong(why: str) -> BadExtract:
    return BadExtract("The manifest is wrong.", state="MANIFEST_WRONG", why=why)


def _fault(m: Manifest) -> str:
    """Return the first fault of a manifest; empty if there is none."""
    if not _is_date(m.business_date):
        return "the business date is not a date"
    conditions: tuple[tuple[bool, str], ...] = (
        (bool(_NODE.fullmatch(m.node)), "the node is not a node's address"),
        (bool(_STORE.fullmatch(m.store)), "the store is not semq_id.semq_db_id"),
        (m.role in ("local", "platform"), "the role is neither local nor platform"),
        (m.role == "platform" or not m.is_hub, "a node of the hub's type has another role"),
        (m.is_hub or m.role == "local", "an institution claims to be the hub"),
        (m.window_start < m.window_end, "its window is empty"),
        (_matches_date(m.window, m.business_date), "its window is too long, or too far from its date"),
        (_matches_calendar(m), "its window is not that of its date in its zone, with its cut-off"),
        (abs(m.clock_skew_ms or 0) <= SKEW_MAX_MS, "its clock difference is impossible"),
        (m.window_start <= m.watermark <= m.window_end, "its watermark lies outside its window"),
        (m.rows == sum(part.rows for part in m.files), "the rows of its files do not add up"),
        (len(m.files) <= FILES_MAX, "it has too many files"),
        (len({part.name for part in m.files}) == len(m.files), "a file is named twice"),
        (all(_PART.fullmatch(part.name) for part in m.files), "a file has an impossible name"),
        (all(_SHA256.fullmatch(part.sha256) for part in m.files), "a hash is not a SHA-256"),
    )
    return next((fault for holds, fault in conditions if not holds), "")


def _is_date(text: str) -> bool:
    try:
        parse_date(text)
    except BadRunRequest:
        return False
    return True


def _matches_date(window: Window, day: str) -> bool:
    """Return whether a window lasts at most 26 hours and begins within 26 hours of midnight UTC of the date."""
    midnight = datetime.combine(date.fromisoformat(day), time(), UTC).timestamp() * 1000
    return window.end - window.start <= 26 * _HOUR_MS and abs(window.start - midnight) <= 26 * _HOUR_MS


def _matches_calendar(m: Manifest) -> bool:
    """Return whether zone and cut-off give the window, to within three hours, because rules of time zones change.

    An unknown zone is accepted.
    """
    try:
        by_calendar = Calendar(m.zone, m.cutoff).window(m.day)
    except BadSettings:
        return True
    differences = (abs(stated - expected) for stated, expected in zip(m.window, by_calendar, strict=True))
    return all(difference <= 3 * _HOUR_MS for difference in differences)


def canonical(value: object) -> bytes:
    """Return JSON with sorted keys."""
    return msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=2) + b"\n"
