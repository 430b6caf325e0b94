"""The demo as a user runs it, also with nodes that are killed."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import httpx

from tests.depth import deeper
from tests.prepared.client import command_of

QUEUES = ("tb_0031", "tb_0030")
DEMO = command_of("semq.demo")


DOCUMENTS = 2 * deeper(20, 40)  # with fewer, a killed hub may have forwarded too few to plant all defects
# Text of a line | the node that is killed at this line.
KILLS = [(f"  {DOCUMENTS * part // 4:2} ", node) for part, node in ((1, "hub"), (2, "56001"), (3, "10008"))]


def test_the_demo_with_certificates_succeeds_although_each_node_is_killed(tmp_path: Path) -> None:
    orders, temporary = tmp_path / "orders", tmp_path / "t"
    orders.mkdir()
    temporary.mkdir()
    for number in range(4):
        (orders / f"order-{number}.xml").write_bytes(os.urandom(1000 * number))
    command = [*DEMO, "--json", "--secure", "--documents", str(orders), "--count", str(DOCUMENTS // 2), "--inject"]
    environment = {**os.environ, "TMPDIR": str(temporary)}  # parent of the demo's folder
    pids, printed = {}, ""
    with subprocess.Popen(
        command, cwd="/", env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        for line in demo.stderr:
            printed += line
            if found := re.search(r"(\w+) +is process (\d+), port", line):
                pids[found[1]] = int(found[2])
            for mark, victim in KILLS:
                if mark in line and victim in pids:
                    os.kill(pids.pop(victim), signal.SIGKILL)
        output = demo.stdout.read()
    assert demo.returncode == 0, printed
    assert "10008 has a certificate" in printed
    assert "56001 has a certificate" in printed
    result = json.loads(output.splitlines()[-1])
    expected = {
        "accepted": DOCUMENTS,
        "delivered": DOCUMENTS,
        "duplicated": 0,
        "lost": 0,
        "left_in_queues": 0,
        "digest_mismatches": 0,
    }
    assert result | expected == result
    assert result["restarts"] == len(KILLS)
    reconciled = result["reconcile"]
    assert (reconciled["messages"], len(reconciled["planted"])) == (DOCUMENTS, 6)
    assert (reconciled["found"], reconciled["strange"]) == (6, 0), reconciled
    report = Path(reconciled["report"])
    assert report.read_text().startswith("<!DOCTYPE html>")
    sources = json.loads((report.parent / "summary.json").read_text())["sources"]
    assert {one["source"] for one in sources if one["signed_by"]} == {"1.10008.1.1", "1.56001.1.1", "2.hub.1.1"}
    assert json.loads((report.parent / "repair" / "index.json").read_text())["signature"]
    # "resolved": nothing is left to repair, because the defects were planted into the extracts, not into the nodes.
    assert reconciled["repaired"] == {"10008": {"resolved": 1}, "56001": {"resolved": 1}}
    (folder,) = temporary.glob("semq-demo-*")
    assert report.is_relative_to(folder)
    assert [one.name for one in folder.iterdir()] == ["reports"]
    for stream in (demo.stdout, demo.stderr):
        stream.close()


def test_the_demo_goes_on_without_the_hub_by_a_direct_link(reconciles: bool) -> None:
    command = [*DEMO, "--json", "--direct", "--count", "3", *([] if reconciles else ["--no-reconcile"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the hub is killed (SIGKILL) and not started again" in done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["delivered"], result["received"], result["lost"], result["duplicated"]) == (6, 6, 0, 0)
    assert set(result["left_in_each_queue"]) == {f"{name}.{table}" for name in (10008, 56001) for table in QUEUES}
    if reconciles:
        assert result["reconcile"]["verdicts"] == {"MATCHED": 6}
        assert result["reconcile"]["strange"] == 0


def test_an_interrupted_demo_leaves_no_process_behind(tmp_path: Path) -> None:
    command = [*DEMO, "--data-dir", str(tmp_path)]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert demo.stdout is not None
    pids = []
    for line in demo.stdout:
        if found := re.search(r"is process (\d+), port", line):
            pids.append(int(found[1]))
        if len(pids) == 3:
            break
    demo.send_signal(signal.SIGINT)
    rest = demo.stdout.read()
    assert demo.wait() == 130, rest
    demo.stdout.close()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert not list(tmp_path.glob("*/postgres/data/postmaster.pid"))


def test_a_folder_without_files_is_refused_before_the_start(tmp_path: Path) -> None:
    done = subprocess.run([*DEMO, "--documents", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is not a folder with files" in done.stderr


def test_a_demo_that_stays_prints_links_that_sign_in_once(tmp_path: Path) -> None:
    (tmp_path / "order.xml").write_bytes(b"<order/>")
    options = [
        "--stay",
        "--no-reconcile",
        "--documents",
        str(tmp_path),
        "--count",
        "1",
        "--data-dir",
        str(tmp_path / "data"),
    ]
    demo = subprocess.Popen([*DEMO, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert demo.stdout is not None
    links, printed = {}, ""
    try:
        for line in demo.stdout:
            printed += line
            if found := re.search(r"console of (\w+): (http://127\.0\.0\.1:\d+)(/first/\S+)", line):
                links[found[1]] = found[2], found[3]
            if "Ctrl-C stops them" in line:
                break
        assert set(links) == {"hub", "10008", "56001"}, printed
        for site, path in links.values():
            with httpx.Client(base_url=site, follow_redirects=True, timeout=60, verify=False) as browser:
                page = browser.get(path)
                assert (page.status_code, page.url.path) == (200, "/users"), page.text
                charts = browser.get("/").text
                figures = re.findall(r"(?:accepted|forwarded) <strong>([0-9,]+)<", charts)
                assert [int(figure.replace(",", "")) > 50 for figure in figures] == [True] * 3
                assert httpx.get(f"{site}{path}", timeout=60).status_code == 403  # the link signs in only once
    finally:
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
        demo.stdout.close()
        assert demo.wait() == 0, printed + rest
