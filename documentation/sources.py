"""Pages of the site: all of docs/, and these documents, which stay beside what they describe."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

# file of the repository | its place in the site
ELSEWHERE: dict[str, str] = {
    "PROTOCOL.md": "protocol/index.md",
    "CHANGELOG.md": "changelog.md",
    "ARCHITECTURE.md": "develop/architecture.md",
    "CONTRIBUTING.md": "develop/contributing.md",
    "DECISIONS.md": "develop/decisions.md",
    "SECURITY.md": "operate/security.md",
    "deploy/README.md": "operate/deployment.md",
    "spark_reconcile/README.md": "operate/reconciliation-job.md",
    "spark_reconcile/DESIGN.md": "develop/reconciliation-design.md",
    "bench/README.md": "develop/benchmarks.md",
    "findings/README.md": "develop/findings.md",
    "examples/README.md": "applications/examples.md",
}


def pages() -> dict[str, str]:
    """Return the place in the site of each page, by its file in the repository."""
    inside = {file.relative_to(ROOT).as_posix(): file.relative_to(DOCS).as_posix() for file in DOCS.rglob("*.md")}
    return inside | ELSEWHERE
