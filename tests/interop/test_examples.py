"""The programs of examples/clients whose languages this machine has send and receive documents."""

import pytest

from tests.interop.examples import LANGUAGES, check
from tests.interop.institutions import between_institutions


@pytest.mark.parametrize("name", [name for name, language in LANGUAGES.items() if language.is_present])
def test_a_program_sends_and_receives_documents(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    between_institutions(lambda institutions: check(institutions, [name]))
    assert capsys.readouterr().out == f"{name}: 3 documents sent and received\n"
