"""Names of the house say hub and bytes instead of platform and octets."""

import tokenize

from tests.test_house import ROOT, committed

# Word that names no longer use | files that keep it | names that keep it | because
OLD_WORDS = [
    (
        "octet",
        ("semq/amqp/", "tests/amqp/"),
        {"octet_length"},
        "AMQP's own word for a wire type; a function of Postgres",
    ),
    (
        "platform",
        (),
        {"platform", "platform_node", "run_platform", "_platform", "PLATFORM", "PLATFORM_ACKED", "platform_acked"},
        "node.kind and its commands, the type in addresses, a kind of ledger line; a module of Python",
    ),
]


def test_names_say_hub_and_bytes() -> None:
    wrong = []
    for file in committed():
        if file.suffix != ".py":
            continue
        name = str(file.relative_to(ROOT))
        with tokenize.open(file) as source:
            words = {token.string for token in tokenize.generate_tokens(source.readline) if token.type == tokenize.NAME}
        for word, folders, kept, _ in OLD_WORDS:
            if not name.startswith(folders):
                wrong += [f"{name}: {one}" for one in sorted(words - kept) if word in one.lower()]
    assert wrong == []
