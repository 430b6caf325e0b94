"""The rules of the code base as rows, which are compared with the sources: floors, clocks, sizes, names, words.

A new row needs a reason. ARCHITECTURE.md describes the floors.
"""

import ast
import re
from collections import Counter

from tests.covered import COVERED, ERRORS
from tests.house.figures import circles, import_graph
from tests.house.sources import (
    ROOT,
    at,
    code_of,
    committed,
    faults_of_prose,
    has_module,
    imports,
    modules,
    modules_without_test,
    names_in,
    nodes,
    tree,
)
from tests.selection.kinds import KINDS

# package or module | floor: imports point to lower floors only
FLOORS: dict[str, float] = {
    # -1: for all packages
    "semq.errors": -1,  # the root of the error tree
    "semq.foreign_text": -1,  # foreign text, made safe for display
    "semq.counters": -1,  # a list of words
    "semq.access_rights": -1,  # names of rights
    "semq.status_words": -1,  # statuses in words
    "semq.compiled": -1,  # functions made from rows of tables
    "semq.sizes": -1,  # numbers of bytes as texts
    "semq.trace_context": -1,  # traces of applications and ids of spans
    "semq.durations": -1,  # durations as texts
    "semq.translations": -1,  # texts in other languages
    "semq.moments": -1,  # times as texts
    "semq.imports": -1,  # imports at the start of a program
    "semq.answers": -1,  # what operations return
    "semq.clock": -1,  # time and random numbers; floor 0 may not use it
    "semq.umx_t": 0,
    "semq.amqp": 0,
    "semq.seal": 0,
    "semq.store": 1,
    "semq.pki": 2,  # files and cryptography; no sockets, no rows
    "semq.transport": 2,
    "semq.broker": 2,
    "semq.datagrams": 2,
    "semq.engine": 3,
    "semq.config": 3.5,  # configuration of nodes, which pass settings to the floors below
    "semq.service": 3.7,  # the common parts of both kinds of node as processes
    "semq.carrier": 3.8,  # the transport of messages between instances of the hub
    "local_node": 4,
    "platform_node": 4,
    "semq.app": 5,
    "semq.cli": 5,
    "semq.console": 5,
    "semq.demo": 5,
    "semq.installation": 5,
    "semq.legacy": 5,
    "semq.folders": 5,
    "semq.web": 5,
    "semq.webhooks": 5,
    "spark_reconcile": 5,
}

# package | may also import | because
PERMITTED_IMPORTS: dict[tuple[str, str], str] = {
    ("semq.durations", "semq.translations"): "durations are in the language of the task",
    ("semq.broker", "semq.transport"): "the broker answers on the connections that transport accepts",
    ("semq.cli", "semq.app"): "the command line is an application like any other",
    ("semq.cli", "spark_reconcile"): "a command starts the reconciliation",
    ("semq.cli", "semq.demo"): "a command starts the demo",
    ("semq.cli", "semq.installation"): "a command writes the files of a new node",
    ("spark_reconcile", "semq.app"): "extracts travel as documents, and repairs are requested as by any application",
    ("semq.folders", "semq.app"): "folders send and receive as any application does",
    ("semq.webhooks", "semq.app"): "webhooks receive as any application does",
    ("semq.installation", "semq.app"): "a node's first certificate is requested as by an administrator",
    ("semq.legacy", "semq.app"): "the import submits and asks as any application does",
    ("semq.cli", "semq.legacy"): "a command starts the import",
    ("semq.demo", "semq.installation"): "the demo starts an installation",
    ("semq.web", "semq.app"): "the web process asks the node as any application does",
    ("semq.cli", "semq.folders"): "doctor checks that the folders are the ones that were served",
    ("semq.cli", "semq.web"): "a command starts the web process",
    ("semq.console", "semq.web"): "the web process serves the pages of the console",
    ("semq.console", "spark_reconcile"): "the console shows the runs and explains verdicts",
    ("semq.demo", "semq.app"): "the demo's institutions send and receive as applications do",
}

PURE = ("semq.umx_t", "semq.amqp", "semq.seal")
IMPURE = {
    "asyncio", "concurrent", "http", "io", "logging", "multiprocessing", "os", "pathlib", "psycopg", "random",
    "secrets", "select", "selectors", "signal", "socket", "sqlalchemy", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib", "uvloop",
}  # fmt: skip
IMPURE_NAMES = {"semq.clock"}

# modules and functions that only semq/clock.py may use below floor 5
TIME_AND_RANDOM = {"time", "random", "secrets", "uuid.uuid1", "uuid.uuid4", "os.urandom"}
NOW = re.compile(r"\b(datetime|date)\.(now|utcnow|today)\(|\buuid[14]\(|\burandom\(")
# module | may use | because
OWN_CLOCK: dict[str, tuple[set[str], str]] = {
    "semq.store.embedded.server": ({"time"}, "waits for a server process; nothing in the protocol depends on it"),
    "semq.store.embedded.process": ({"time"}, "waits for a server process, too"),
    "semq.store.postgres.writer": (
        {"time"},
        "measures its batches and renews its lease; the simulator has a store of its own",
    ),
    "semq.store.embedded.cluster": ({"secrets"}, "draws the password of a new database cluster"),
    "semq.store.postgres.roles": ({"secrets"}, "draws the password of a new role"),
}

# package | modules that write to stdout or stderr, and pass foreign text through semq.foreign_text
# Without a row, any module may write.
STREAM_WRITERS: dict[str, set[str]] = {
    "semq.web": {"semq.web.process"},
    "semq.cli": {"semq.cli.output.printer"},
    "semq.service": {"semq.service.process", "semq.service.log"},
    "local_node": set(),
    "platform_node": set(),
    "spark_reconcile": {"spark_reconcile.commands", "spark_reconcile.progress"},
}

# module | may write times or dates as texts | because
WRITERS_OF_TIMES: dict[str, str] = {
    "semq.moments": "its purpose: one form, always with an offset",
    "semq.store.postgres.ledger_partitions": "dates of partitions, for SQL",
    "semq.store.postgres.chain": "dates of the links of the hash chain, as they are stored",
}

LINES_MAX = 500
# Longer files | their limit; lower it when the file gets shorter
LONG: dict[str, int] = {
    "tests/memory_store/test_store.py": 567,
}

MODULES_MAX = 20  # in one folder; larger folders are divided by subject
# Larger folders | their limit; lower it when the folder gets smaller
CROWDED: dict[str, int] = {}
NUMBERED = {"semq/store/migrations/versions"}  # without a limit: a module for each revision of the schema

# module | may set fields of objects that it reaches through others | because
SET_THROUGH: dict[str, str] = {
    "semq.web.application": "Starlette's applications are configured by their attributes",
    "semq.web.api.inbox": "a payload that the answer contains need not stay in memory for the time of the lease",
}

# Tests without a module of their name, and their subjects.
TESTS_WITHOUT_MODULE: dict[str, str] = {
    "tests/test_house.py": "all sources",
    "tests/test_run.py": "the script run",
    "tests/house/test_bounds.py": "all modules that listen",
    "tests/house/test_dependencies.py": "pyproject.toml",
    "tests/house/test_client_page.py": "docs/applications/values.md",
    "tests/house/test_documents.py": "the documents",
    "tests/house/test_figures.py": "tests/house/figures.py",
    "tests/house/test_maps.py": "the docstrings of packages",
    "tests/house/test_names.py": "all sources",
    "tests/selection/test_kinds.py": "tests/selection/kinds.py",
    "tests/selection/test_turns.py": "tests/selection/turns.py",
    "tests/test_surroundings.py": "tests/surroundings.py",
    "tests/spark_reconcile/spark/test_object_store.py": "whole runs in an object store",
    "tests/spark_reconcile/spark/test_standalone.py": "whole runs in a cluster",
    "tests/documentation/test_site.py": "the documentation as a site",
    "tests/documentation/test_tutorial.py": "docs/tutorial.md",
    "tests/prepared/test_client.py": "tests/prepared",
    "tests/versions/test_recorded.py": "what the released version wrote",
    "tests/versions/test_rolling_update.py": "nodes of two versions",
    "tests/spark_reconcile/extracts/test_released.py": "extracts that the released version wrote",
    "tests/test_protocol_references.py": "PROTOCOL.md",
    "tests/test_protocol_forms.py": "docs/protocol/forms.md",
    "tests/service/test_wire.py": "the bytes between nodes",
    "tests/service/datagrams/test_offers.py": "the dialling end of semq/service/datagrams/ends.py",
    "tests/spark_reconcile/report/test_layout.py": "the page as a browser lays it out",
    "tests/spark_reconcile/extracts/test_contract.py": "spark_reconcile/extracts/contract.json",
    "tests/console/test_chinese_pages.py": "pages with errors, in Chinese",
    "tests/console/test_pages_in_browser.py": "all pages, in a browser",
    "tests/console/test_pictures.py": "docs/operate/console.md",
    "tests/console/test_roles_and_forms.py": "all forms",
    "tests/deploy/test_alert_rules.py": "deploy/prometheus",
    "tests/deploy/test_units_and_rules.py": "deploy/systemd, deploy/prometheus, deploy/grafana",
    "tests/flows": "conversations between nodes",
    "tests/memory_store": "the store of the simulator",
    "tests/simulation": "whole nodes on a seeded network",
    "tests/campaign": "whole nodes, all doors and faults",
    "tests/planted": "all sources, with small defects",
    "tests/store/postgres/refusals": "rows of every table that Postgres refuses",
    "tests/store/postgres/conditions/test_poolers.py": "requirements, through PgBouncer",
    "tests/house/test_bad_ones.py": "the tests of rows, files and partners that stop nothing but themselves",
    "tests/crash": "whole nodes, killed",
    "tests/differential": "the broker of a node beside RabbitMQ",
    "tests/interop": "clients of other projects",
    "tests/release": "the packages of a release",
}

# word, with a bar because this file must not contain it | why no file may contain it
FORBIDDEN_WORDS = [
    ("pyp|i.org", "names a registry"),
    ("python|hosted.org", "names a registry"),
    ("registry.np|mjs", "names a registry"),
    ("repo1.ma|ven", "names a registry"),
    ("proxy.gol|ang", "names a registry"),
    ("/wo|rk/", "a path of one machine"),
    ("/t|mp/", "a path of one machine"),
    ("/ro|ot/", "a path of one machine"),
    ("far|m-", "a tool of one workplace"),
    ("chat|gpt", "the project speaks of itself only"),
    ("clau|de", "the project speaks of itself only"),
    ("anthro|pic", "the project speaks of itself only"),
]

# word that names must not use | files that may use it | names that may use it | because
OLD_WORDS: list[tuple[str, tuple[str, ...], set[str], str]] = [
    ("octet", ("semq/amqp/", "tests/amqp/"), {"octet_length"}, "AMQP's word for a wire type; a function of Postgres"),
    (
        "platform",
        (),
        {"platform", "platform_node", "run_platform", "_platform", "PLATFORM", "PLATFORM_ACKED", "platform_acked"},
        "node.kind and its commands, the type in addresses, a kind of ledger line; a module of Python",
    ),
]

# range of error codes | packages that may use it
CODES: list[tuple[range, tuple[str, ...]]] = [
    (
        range(1000, 2000),
        (
            "semq.errors",
            "semq.umx_t",
            "semq.carrier",
            "semq.engine",
            "local_node",
            "platform_node",
            "semq.app",
            "semq.folders",
            "semq.web",
            "semq.webhooks",
        ),
    ),
    (
        range(2000, 3000),
        (
            *"semq.errors semq.config semq.cli semq.demo".split(),
            *"semq.installation semq.legacy semq.service local_node platform_node".split(),
        ),
    ),
    (range(3000, 4000), ("semq.store",)),
    (range(4000, 5000), ("semq.amqp", "semq.transport", "semq.broker", "semq.datagrams")),
    (range(5000, 6000), ("semq.seal", "semq.pki")),
    (range(6000, 7000), ("spark_reconcile",)),
]


# ------------------------------------------------------------ the checks


def package_of(name: str) -> str | None:
    """Return the row of FLOORS to which a dotted name belongs."""
    parts = name.split(".")
    return next((".".join(parts[:n]) for n in (2, 1) if ".".join(parts[:n]) in FLOORS), None)


def test_every_module_is_on_a_floor() -> None:
    assert [name for name in modules() if name != "semq.__init__" and package_of(name) is None] == []


def test_imports_point_to_lower_floors_only() -> None:
    wrong = []
    for name, file in modules().items():
        package = package_of(name)
        for line, imported_name in imports(file):
            imported = package_of(imported_name)
            if package is None or imported is None or package == imported or (package, imported) in PERMITTED_IMPORTS:
                continue
            if FLOORS[imported] >= FLOORS[package]:
                wrong.append(f"{at(file, line)}: {package} imports {imported}")
    assert wrong == []


def test_floor_0_is_pure() -> None:
    wrong = [
        f"{at(file, line)}: {imported}"
        for name, file in modules().items()
        if package_of(name) in PURE
        for line, imported in imports(file)
        if imported.split(".")[0] in IMPURE or package_of(imported) in IMPURE_NAMES
    ]
    assert wrong == []


def test_only_the_clock_uses_time_and_random_numbers() -> None:
    wrong = []
    for name, file in modules().items():
        if name == "semq.clock" or FLOORS.get(package_of(name) or "", 5) >= 5:
            continue
        allowed = OWN_CLOCK.get(name, (set(), ""))[0]
        for line, imported in imports(file):
            used = {imported, imported.split(".")[0]} & TIME_AND_RANDOM - allowed
            wrong += [f"{at(file, line)}: {word}" for word in sorted(used)]
        for number, text in enumerate(file.read_text("utf-8").splitlines(), start=1):
            if NOW.search(text.partition("#")[0]):
                wrong.append(f"{at(file, number)}: {text.strip()}")
    assert wrong == []


def test_times_are_written_in_one_form() -> None:
    wrong = [
        f"{at(file, number)}: {text.strip()}"
        for name, file in modules().items()
        if name not in WRITERS_OF_TIMES and name.partition(".")[0] in ("semq", "local_node", "platform_node")
        for number, text in enumerate(file.read_text("utf-8").splitlines(), start=1)
        if re.search(r"\.(isoformat|strftime|ctime)\(", text)
    ]
    assert wrong == []


def test_only_listed_modules_write_to_a_stream() -> None:
    wrong = []
    for name, file in modules().items():
        if name in STREAM_WRITERS.get(package_of(name) or "", {name}):
            continue
        for node in nodes(file):
            written = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if written in ("print", "typer.echo", "typer.secho") or written.startswith(("sys.stdout.", "sys.stderr.")):
                wrong.append(f"{at(file, node.lineno)}: {written}")  # type: ignore[attr-defined]
    assert wrong == []


def test_files_have_at_most_the_permitted_number_of_lines() -> None:
    sources = [file for file in committed() if file.suffix == ".py" or file.name == "run"]
    counted = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in sources}
    assert {name: lines for name, lines in counted.items() if lines > LONG.get(name, LINES_MAX)} == {}


def test_folders_have_at_most_the_permitted_number_of_modules() -> None:
    sizes = Counter(
        str(file.parent.relative_to(ROOT))
        for file in committed()
        if file.suffix == ".py" and file.name not in ("__init__.py", "__main__.py", "conftest.py")
    )
    limited = {name: count for name, count in sizes.items() if name not in NUMBERED}
    assert {name: count for name, count in limited.items() if count > CROWDED.get(name, MODULES_MAX)} == {}


def test_names_do_not_use_old_words() -> None:
    wrong = []
    for file in committed():
        if file.suffix == ".py":
            name, text = str(file.relative_to(ROOT)), file.read_text("utf-8").lower()
            for word, folders, permitted, _ in OLD_WORDS:
                if word in text and not name.startswith(folders):  # most files need not be parsed
                    used = names_in(file) - permitted
                    wrong += [f"{name}: {found}" for found in sorted(used) if word in found.lower()]
    assert wrong == []


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Imports for type checking count, too. Instead, declare a Protocol of the owner."""
    assert circles(import_graph()) == []


def test_no_field_is_set_through_another_object() -> None:
    """Instead of ``engine.sender.on_sent = …``, pass the value at construction, or call a method."""
    wrong = [
        f"{at(file, node.lineno)}: {ast.unparse(target)}"
        for name, file in modules().items()
        if name not in SET_THROUGH
        for node in nodes(file)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if re.fullmatch(r"(?!self\.)\w+(\.\w+){2,}", ast.unparse(target))
    ]
    assert wrong == []


def test_every_module_has_a_docstring() -> None:
    wrong = [name for name, file in modules().items() if tree(file).body and not ast.get_docstring(tree(file))]
    assert wrong == []


def test_no_docstring_has_a_sentence_cut_in_two() -> None:
    broken = []
    for file in modules().values():
        for node in nodes(file):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                broken += [f"{at(file, getattr(node, 'lineno', 1))}: {why}" for why in faults_of_prose(text)]
    assert broken == []


def test_every_test_file_has_a_module() -> None:
    wrong = []
    for file in (ROOT / "tests").rglob("test_*.py"):
        name = file.relative_to(ROOT)
        if any(str(name) == row or row in map(str, name.parents) for row in TESTS_WITHOUT_MODULE):
            continue
        parts = list(name.with_suffix("").parts[1:])
        subject = parts.pop().removeprefix("test_")
        folders = [ROOT.joinpath(top, *parts) for top in ("semq", ".")]
        if not any(has_module(folder, subject) for folder in folders):
            wrong.append(str(name))
    assert wrong == []


def test_every_module_has_either_a_test_of_its_name_or_a_row_that_names_one() -> None:
    without = set(modules_without_test())
    assert sorted(without - set(COVERED)) == []
    assert sorted(set(COVERED) - without) == []
    assert sorted(test for test in {*COVERED.values(), ERRORS} if not (ROOT / "tests" / test).is_file()) == []


def test_every_kind_of_tests_has_tests() -> None:
    tests = [str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py")]
    files = [kind.prefix.partition("::")[0] for kind in KINDS]
    assert [file for file in files if not any(test.startswith(file) for test in tests)] == []


def test_every_module_is_used() -> None:
    """A module is used by an import, or by its name where a process is started. Tests do not count."""
    named = "\n".join(
        file.read_text("utf-8")
        for file in committed()
        if file.suffix in {".py", ".toml", ".ini", ".service"} or file.name == "run"
        if "tests" not in file.relative_to(ROOT).parts
    )
    imported = {name for file in modules().values() for _, name in imports(file)}
    imported |= {name.rpartition(".")[0] for name in imported}
    unused = [
        name
        for name in modules()
        if not name.startswith("semq.store.migrations.") and name.rpartition(".")[2] not in ("__init__", "__main__")
        if name not in imported and f'"{name}"' not in named and f"{name}:" not in named and f" {name} " not in named
    ]
    assert unused == []


def test_error_codes_are_unique_and_in_their_range() -> None:
    classes: dict[str, str] = {}  # code | class
    wrong = []
    for name, file in modules().items():
        for node in nodes(file):
            code = code_of(node) if isinstance(node, ast.ClassDef) else None
            if code is None or not isinstance(node, ast.ClassDef):
                continue
            place = f"{at(file, node.lineno)}: {node.name} {code}"
            ranges = [numbers for numbers, packages in CODES if package_of(name) in packages]
            if not re.fullmatch(r"SEMQ-\d{4}", code) or not any(int(code[5:]) in numbers for numbers in ranges):
                wrong.append(f"{place} is outside the range of {package_of(name)}")
            if code in classes:
                wrong.append(f"{place} is also the code of {classes[code]}")
            if not (ast.get_docstring(node) or "").partition("\n")[0].endswith("."):
                wrong.append(f"{place}: the first line of its docstring is no sentence for the operator")
            classes[code] = node.name
    assert wrong == []


def test_no_committed_file_contains_a_forbidden_word() -> None:
    words = {word.replace("|", ""): why for word, why in FORBIDDEN_WORDS}
    wrong = []
    for file in committed():
        try:
            lines = file.read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, start=1):
            wrong += [f"{at(file, number)}: {word}: {why}" for word, why in words.items() if word in line.casefold()]
    assert wrong == []


def test_the_lock_files_contain_no_address() -> None:
    for lock in ROOT.glob("requirements-*.lock"):
        text = lock.read_text()
        assert "://" not in text
        assert "--index-url" not in text
        assert all("--hash=sha256:" in entry for entry in re.split(r"\n(?=\S)", text.strip()))
