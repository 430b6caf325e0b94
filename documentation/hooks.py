"""What mkdocs calls while it builds the site."""

import logging
import re
from functools import cache

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils.templates import TemplateContext
from pymdownx.slugs import slugify

from documentation import links, markdown, sources
from documentation.reference import pages as reference

HEADING = re.compile(r"^#+ ((\d+(?:\.\d+)?)\.? .+)$", re.MULTILINE)
LOG = logging.getLogger("mkdocs.plugins.documentation")  # the strict mode counts warnings below mkdocs
_pages = sources.pages()
_files = {place: file for file, place in _pages.items()}
_copied = set[str]()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents that are not in docs/, the files that documents link, and the reference."""
    for place, text in reference.texts():
        files.append(File.generated(config, place, content=text))
    for source, place in sources.ELSEWHERE.items():
        files.append(File.generated(config, place, abs_src_path=str(sources.ROOT / source)))
    for source in _pages:
        links.relinked((sources.ROOT / source).read_text("utf-8"), source, _pages, _copied)
    for source in sorted(_copied):
        files.append(File.generated(config, f"{links.FILES}/{source}", abs_src_path=str(sources.ROOT / source)))
    return files


def on_page_markdown(text: str, page: Page, **_: object) -> str:
    """Return the text of a page as the site's parser reads it."""
    place = page.file.src_uri
    if place not in _files:  # made from the code: its other links are those of the site
        return links.with_sections(text, place, {each: (_pages[at], to) for each, (at, to) in sections().items()})
    source = _files[place]
    text = links.with_sections(text, source, sections())
    return markdown.for_the_site(links.relinked(text, source, _pages, _copied))


def on_page_context(context: TemplateContext, page: Page, config: MkDocsConfig, **_: object) -> TemplateContext:
    """Give the frame of a page (language, search, table of contents) the language of its text."""
    config.theme["language"] = "zh" if page.file.src_uri.startswith("zh/") else "en"
    return context


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Warn of a code block that the parser takes for text."""
    if "```" in html:
        LOG.warning("%s: a block of code is not recognised: %.80s", page.file.src_uri, html[html.index("```") :])
    return html


def on_post_template(output: str, template_name: str, **_: object) -> str:
    """Leave out the page of a web server for wrong addresses: its links are those of a server's root."""
    return "" if template_name == "404.html" else output


@cache
def sections() -> dict[str, tuple[str, str]]:
    """Return file and anchor of each section of the protocol by its number."""
    slug, found = slugify(case="lower"), {}
    for source in _pages:
        if source == "PROTOCOL.md" or source.startswith("docs/protocol/"):
            for heading, number in HEADING.findall((sources.ROOT / source).read_text("utf-8")):
                found[number] = source, slug(heading, "-")
    return found
