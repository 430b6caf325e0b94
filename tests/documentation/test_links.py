"""Links of documents, as they are in the site."""

from documentation.links import relinked, with_sections

PAGES = {
    "PROTOCOL.md": "protocol/index.md",
    "docs/operate/index.md": "operate/index.md",
    "deploy/README.md": "operate/deployment.md",
}


def test_links_to_pages_folders_and_files_lead_to_their_places_in_the_site() -> None:
    copied = set[str]()
    text = "[a](../../PROTOCOL.md#x) [b](../../deploy/systemd) [c](../../run) [d](#here) [e](https://example.org/)"
    assert relinked(text, "docs/operate/index.md", PAGES, copied) == (
        "[a](../protocol/index.md#x) [b](deployment.md) [c](../files/run) [d](#here) [e](https://example.org/)"
    )
    assert copied == {"run"}


def test_code_stays_as_it_is() -> None:
    text = "`[a](../run)` and\n\n    [a](../run)\n\n```\n[a](../run)\n```\n"
    assert relinked(text, "deploy/README.md", PAGES, set()) == text


def test_references_to_sections_of_the_protocol_become_links() -> None:
    sections = {"2.1": ("docs/protocol/groups.md", "21-groups")}
    text = "members (PROTOCOL.md section 2.1), `PROTOCOL.md section 2.1`"
    assert with_sections(text, "docs/operate/index.md", sections) == (
        "members (protocol [section 2.1](../protocol/groups.md#21-groups)), `PROTOCOL.md section 2.1`"
    )
