"""The files that the demo sends. Each is read when it is sent."""

import mimetypes
import re
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from semq.demo.errors import NoDocuments
from semq.umx_t.app_key import PART_MAX, AppKey

_KIND = re.compile(r"([A-Za-z]+(?:-[a-z]+)*)[-_.]")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to send."""

    path: Path
    name: str  #: relative to the folder

    @property
    def kind(self) -> str:
        """The kind of document according to the file name: ``order`` for order-LW-2041.xml."""
        found = _KIND.match(self.path.name)
        return found[1].lower() if found else "document"

    @property
    def content_type(self) -> str:
        """The content type according to the suffix of the file name."""
        return mimetypes.guess_type(self.path.name)[0] or "application/octet-stream"

    def app_key(self, number: int) -> AppKey:
        """Return the AppKey: demo / kind / number / file name."""
        key = "".join(letter if letter.isprintable() else "?" for letter in self.name)
        return AppKey("demo", self.kind[:PART_MAX], f"{number:04d}", key[-PART_MAX:])


def read_folder(folder: Path, count: int | None) -> list[SourceFile]:
    """List the files of a folder and its subfolders by name, repeated or cut to ``count``. Raises NoDocuments."""
    found = [SourceFile(path, str(path.relative_to(folder))) for path in sorted(folder.rglob("*")) if path.is_file()]
    files = [file for file in found if not any(part.startswith(".") for part in Path(file.name).parts)]
    if not files:
        raise NoDocuments(folder=str(folder))
    return files if count is None else list(islice(cycle(files), count))
