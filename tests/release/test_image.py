"""The steps of the Containerfile are those that ``release.image`` can run; the release tries them."""

from release.image import CONTAINERFILE, STAGE, WITHOUT_STEP, instructions


def test_every_instruction_of_the_containerfile_can_be_run_in_a_root() -> None:
    found = list(instructions(CONTAINERFILE.read_text("utf-8")))
    assert {word for word, _ in found} <= {"FROM", "RUN", "COPY", "USER"} | WITHOUT_STEP
    assert all(STAGE.match(rest) for word, rest in found if word == "FROM")
    assert ("USER", "10001") in found


def test_instructions_have_their_lines_joined_and_no_comments() -> None:
    text = "# what\nFROM debian:bookworm-slim AS one\nRUN a \\\n    && b\n\nCOPY --from=one /x /y\n"
    assert list(instructions(text)) == [
        ("FROM", "debian:bookworm-slim AS one"), ("RUN", "a && b"), ("COPY", "--from=one /x /y"),
    ]  # fmt: skip
