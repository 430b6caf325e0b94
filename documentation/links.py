"""Links between files of the repository become links between pages of the site.

A document links what it means by its path in the repository, so that the links work in a checkout, too. A link to a
file that is no page leads to a copy of the file in the site; one to a folder to the page that describes the folder.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping

from documentation.sources import ROOT

LINK = re.compile(r'(\]\(|<img src=")([^)"\s]+)')
SECTION = re.compile(r"(?<![\[\w])PROTOCOL\.md sections? (\d+)(?:\.(\d+))?")
CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`|^(?: {4}[^\n]*\n)+", re.DOTALL | re.MULTILINE)
HOME = "index.md"
FILES = "files"  # the folder of the site with copies of linked files


def relinked(text: str, source: str, pages: Mapping[str, str], copied: set[str]) -> str:
    """Return the text of the document ``source`` with its links as in the site; add linked files to ``copied``."""
    here = posixpath.dirname(pages[source])

    def site_link(match: re.Match[str]) -> str:
        path, mark, anchor = match[2].partition("#")
        if "://" in match[2] or not path:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        return f"{match[1]}{posixpath.relpath(_place(target, pages, copied), here or '.')}{mark}{anchor}"

    return "".join(part if is_code else LINK.sub(site_link, part) for is_code, part in _parts(text))


def _place(target: str, pages: Mapping[str, str], copied: set[str]) -> str:
    """Return the place in the site of a file or folder of the repository."""
    if target in pages:
        return pages[target]
    if (ROOT / target).is_dir():
        return next((pages[page] for page in _readmes(target) if page in pages), HOME)
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    copied.add(target)
    return f"{FILES}/{target}"


def _readmes(folder: str) -> Iterator[str]:
    """Yield the documents that may describe a folder, the nearest first."""
    while folder:
        yield f"{folder}/README.md"
        folder = posixpath.dirname(folder)


def with_sections(text: str, source: str, sections: Mapping[str, tuple[str, str]]) -> str:
    """Return the text with its references to sections of the protocol as links.

    ``sections`` has the file and the anchor of each section by its number.
    """

    def link(match: re.Match[str]) -> str:
        number = f"{match[1]}.{match[2]}" if match[2] else match[1]
        file, anchor = sections[number]
        word = "sections" if "sections" in match[0] else "section"
        return f"protocol [{word} {number}]({posixpath.relpath(file, posixpath.dirname(source) or '.')}#{anchor})"

    return "".join(part if is_code else SECTION.sub(link, part) for is_code, part in _parts(text))


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the text in parts: code, which stays as it is, and the rest."""
    end = 0
    for found in CODE.finditer(text):
        yield False, text[end : found.start()]
        yield True, found[0]
        end = found.end()
    yield False, text[end:]
