"""Names and settings of the rules."""

import subprocess
import sys

import pytest

import agents
from agents.ordered import concurrent
from hexenv.errors import ConfigError


def test_every_name_makes_its_scheduler():
    known = {"random", "serial", "edf", "concurrent", "greedy_pair", "greedy_versions", "slack_gate", "tacker"}
    assert known < set(agents.names())
    for name in agents.names():
        assert agents.make(name).name == name


def test_unknown_name_lists_the_allowed_ones():
    with pytest.raises(ConfigError, match=r"'tackar'.*random, serial, edf.*slack_gate"):
        agents.make("tackar")


def test_comparison_settings():
    assert agents.make("serial").overrides == agents.make("edf").overrides == {"mode": "serial"}
    assert concurrent(hmx_lock="op", vtcm_split="static", context_split="static").overrides == {
        "mode": "concurrent",
        "hmx_lock": "op",
        "vtcm_split": "static",
        "context_split": "static",
    }
    for name in ("random", "greedy_pair", "greedy_versions", "slack_gate", "tacker", "aker", "hfuse", "pod", "window"):
        assert agents.make(name).overrides == {"mode": "fused"}
    assert agents.make("orion").overrides == agents.make("concurrent").overrides


def test_schedulers_share_no_settings():
    agents.make("serial").overrides["mode"] = "fused"
    assert agents.make("serial").overrides == {"mode": "serial"}


def test_rules_do_not_import_torch():
    code = "import sys, agents; [agents.make(n) for n in agents.names()]; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
