"""The demo without a hub."""

import json
import subprocess

from tests.demo.test_scenario import DEMO


def test_two_institutions_without_a_hub_lose_nothing_and_the_reconciliation_expects_no_hub(
    reconciles: bool,
) -> None:
    command = [*DEMO, "--json", "--no-hub", "--count", "3", *([] if reconciles else ["--no-reconcile"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "hub is process" not in done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["delivered"], result["received"], result["lost"], result["duplicated"]) == (6, 6, 0, 0)
    assert set(result["left_in_each_queue"]) == {
        f"{name}.{table}" for name in (10008, 56001) for table in ("tb_0031", "tb_0030")
    }
    if reconciles:
        assert result["reconcile"]["verdicts"] == {"MATCHED": 6}
        assert result["reconcile"]["strange"] == 0
