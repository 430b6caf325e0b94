"""Debian's amqp-tools: small programs that use the C library librabbitmq."""

import subprocess


def tool(url: str, name: str, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes]:
    """Return exit status and output."""
    done = subprocess.run(
        [f"amqp-{name}", "--url", url.rstrip("/"), *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_amqp_tools_declare_publish_get_consume_and_delete(url: str) -> None:
    assert tool(url, "declare-queue", "-q", "tools", "-d") == (0, b"tools\n")
    for number in range(3):
        assert tool(url, "publish", "-r", "tools", "-p", "-C", "text/plain", "-b", f"body {number}") == (0, b"")
    assert tool(url, "get", "-q", "tools") == (0, b"body 0")
    assert tool(url, "consume", "-q", "tools", "-c", "2", "-p", "1", "cat") == (0, b"body 1body 2")
    assert tool(url, "get", "-q", "tools")[0] == 2
    assert tool(url, "publish", "-r", "tools", stdin=b"x" * 500_000) == (0, b"")
    assert tool(url, "get", "-q", "tools") == (0, b"x" * 500_000)
    assert tool(url, "delete-queue", "-q", "tools") == (0, b"0\n")
    status, result = tool(url, "get", "-q", "tools")
    assert status == 1
    assert b"NOT_FOUND - no queue 'tools'" in result
