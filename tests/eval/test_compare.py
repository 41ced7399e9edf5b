import numpy as np
import pandas as pd
import pytest

from eval.__main__ import main
from eval.compare import compare, comparison_markdown
from hexenv.errors import ConfigError
from hexenv.files import csv_text


def rows(scheduler, returns, scenario="toy", config="abc", train_seed=float("nan"), seed=100):
    n = len(returns)
    values = {"scheduler": scheduler, "scenario": scenario, "episode": np.arange(n), "setting": 0}
    values |= {"seed": seed + np.arange(n), "return": returns, "train_seed": train_seed, "config": config}
    return pd.DataFrame(values)


@pytest.fixture
def write(tmp_path):
    """Writes an ``episodes.csv`` into a folder of its own."""

    def make(name, *frames):
        path = tmp_path / name / "episodes.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(csv_text(pd.concat(frames)))
        return path

    return make


def test_each_scheduler_of_both_files_by_hand(write):
    first = write("a", rows("serial", [1.0, 2.0, 3.0, 4.0]), rows("edf", [5.0, 5.0, 5.0, 5.0]), rows("old", [0.0] * 4))
    second = write("b", rows("edf", [4.0, 5.0, 3.0, 1.0]), rows("serial", [1.0, 2.0, 3.0, 4.0]))
    frame = compare(first, second).set_index("first")
    assert list(frame.index) == ["serial", "edf"]
    assert list(frame.loc["serial", ["difference", "difference_low", "difference_high"]]) == [0.0, 0.0, 0.0]
    assert frame.loc["serial", "improvement"] == 0.5
    edf = frame.loc["edf"]
    assert (edf["difference"], edf["difference_iqm"], edf["improvement"]) == (1.75, 1.5, 0.875)
    assert 0.0 <= edf["difference_low"] < 1.75 < edf["difference_high"] <= 4.0
    assert comparison_markdown(frame.reset_index()).count("\n") == 3


def test_one_scheduler_of_each_file(write):
    first = write("a", rows("edf", [5.0, 6.0]), rows("serial", [1.0, 1.0]))
    second = write("b", rows("mine", [4.0, 4.0]))
    assert compare(first, second, ["edf", "mine"])["difference"].tolist() == [1.5]
    assert compare(write("c", rows("edf", [5.0, 6.0])), second)["second"].tolist() == ["mine"]
    with pytest.raises(ConfigError, match=r"no scheduler in common; name one of each with --schedulers"):
        compare(first, second)
    with pytest.raises(ConfigError, match=r"b/episodes.csv has no scheduler 'edf'; it has mine"):
        compare(first, second, ["edf"])
    with pytest.raises(ConfigError, match="takes one scheduler"):
        compare(first, second, ["a", "b", "c"])


def test_training_seeds_are_resampled_and_one_is_said(write):
    rng = np.random.default_rng(5)
    rule = np.round(rng.normal(0.0, 1.0, 40), 3)
    seeds = [rows("learned", rule + shift, train_seed=i) for i, shift in enumerate((-4.0, 0.0, 1.0, 3.0, 5.0))]
    rules = write("rules", rows("edf", rule))
    several, single = (compare(write(f"n{len(own)}", *own), rules, ["learned", "edf"]) for own in (seeds, seeds[3:4]))
    assert several["difference"].tolist() == pytest.approx([1.0])
    # The runs lie 9 apart and the episodes not at all: only drawing runs makes this interval wide.
    assert (several["difference_high"] - several["difference_low"])[0] > 4.0
    assert (single["difference_high"] - single["difference_low"])[0] < 1e-9
    assert "1 training seed: no interval over seeds" in comparison_markdown(single)
    assert "training seed" not in comparison_markdown(several)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (rows("edf", [1.0, 2.0], config="xyz"), "differ on toy, config abc and xyz: no plan.json beside them"),
        (rows("edf", [1.0, 2.0, 3.0]), "on toy, .*a/episodes.csv has 2 episodes and .*b/episodes.csv has 3"),
        (
            rows("edf", [1.0, 2.0], seed=7),
            "has episode 0, setting 0, seed 100 where .* has episode 0, setting 0, seed 7",
        ),
        (rows("edf", [1.0, 2.0], scenario="other"), "no scenario in common"),
        (pd.concat([rows("edf", [1.0, 2.0]), rows("serial", [1.0])]), "not all played the same episodes of toy"),
        (pd.concat([rows("edf", [1.0, 2.0]), rows("serial", [1.0, 2.0], config="x")]), "different configs: abc, x"),
    ],
)
def test_other_games_and_episodes_are_refused(write, other, words):
    first = write("a", rows("edf", [1.0, 2.0]))
    with pytest.raises(ConfigError, match=words):
        compare(first, write("b", other))


def test_real_results_modes_are_compared_and_other_games_refused_by_name(tmp_path, capsys):
    common = ["--scenario", "camera_decode", "--schedulers", "edf", "--episodes", "2", "--workers", "1"]
    for name, extra in (
        ("own", ["--horizon-us", "10000"]),
        ("fused", ["--horizon-us", "10000", "--mode", "fused"]),
        ("strict", ["--horizon-us", "12000", "--lambda", "3"]),
    ):
        assert main([*common, *extra, "--out", str(tmp_path / name)]) == 0
    own, fused, strict = (str(tmp_path / name / "episodes.csv") for name in ("own", "fused", "strict"))
    capsys.readouterr()
    assert main(["--compare", own, fused]) == 0
    assert "| camera_decode | edf | edf | 2 |" in capsys.readouterr().out
    assert main(["--compare", own, strict]) == 2
    error = capsys.readouterr().err
    assert "horizon_ns (10000000 and 12000000), miss_weight (2.0 and 3.0)" in error
    assert main(["--compare", own, fused, "--episodes", "3"]) == 2
    assert "--episodes cannot be given with --compare" in capsys.readouterr().err
