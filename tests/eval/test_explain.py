"""Explanations: consequences and habits worked out by hand, repeatable pages, refusals."""

import numpy as np
import pandas as pd
import pytest

import agents
from agents.kernels.adaptive import N_FEATURES, N_SETTINGS
from agents.learned_gate import LearnedGate
from agents.scheduler import Scheduler
from eval.__main__ import main
from eval.choices import candidates_frame, carry_out, choices_frame, most_telling, record
from eval.episodes import Episode, held_out
from eval.explain_gate import NAMES, gate_settings
from eval.habits import overview_row, play_log, versions_frame, waits_frame
from eval.play import run
from hexenv.action import WAIT, decode, encode
from hexenv.workload import build
from tests.engine.toy import Kernel, Source, Work, one, toy_tables

HVX, HMX = 0, 1
EITHER = Work({(HVX, 0): Kernel(hvx=400.0), (HMX, 0): Kernel(hmx=100.0)})
"""100 us on all of HVX's four contexts, or 100 us on HMX."""
EPISODE = (Episode(0, 1),)


class Fixed(Scheduler):
    """One action for an idle device and one beside a resident; wait where it is not legal."""

    def __init__(self, name: str, idle: int, beside: int) -> None:
        self.name, self.overrides = name, {"mode": "fused"}
        self._actions = idle, beside

    def start(self, tables, batch, seed):
        pass

    def act(self, views, masks):
        beside = views["residents"]["phase"].any(1).astype(int)
        wanted = np.array(self._actions)[beside]
        return np.where(masks[np.arange(len(masks)), wanted], wanted, WAIT)


RUNS = Fixed("runs", encode(0, HVX, 0, 0), WAIT)
WAITS = Fixed("waits", WAIT, WAIT)


def two_streams():
    """Two streams whose jobs come in pairs, four times, due 5 ms later."""
    times = (0.0, 1000.0, 2000.0, 3000.0)
    sources = [Source((EITHER,), times=times, deadline=5000.0, names=name) for name in ("left", "right")]
    return toy_tables(*sources, horizon_ns=4_000_000)


@pytest.fixture(scope="module")
def short_tables():
    return build("camera_decode", "v79", "heldout", mode="fused", horizon_us=10_000)


@pytest.fixture(scope="module")
def recording(short_tables):
    others = [agents.make("online_pairs"), agents.make("greedy_versions")]
    return record(agents.make("slack_gate"), others, short_tables, held_out(short_tables, 1)[0], 0)


class TestChoices:
    def test_a_recording_is_the_episode_and_others_are_asked_at_its_states(self, recording, short_tables):
        alone = run(agents.make("slack_gate"), short_tables, held_out(short_tables, 1)).episodes.iloc[0]
        assert len(recording.lanes) == alone["decisions"]
        assert (recording.explained == WAIT).mean() == alone["wait_share"]
        for name, actions in recording.actions.items():
            rule = agents.make(name)
            rule.start(short_tables, len(actions), 0)
            np.testing.assert_array_equal(rule.act(recording.views, recording.masks), actions)

    def test_what_a_choice_leads_to(self):
        """A stage of 100 us is due in 150 us. Run, it earns 0.1 ms; held, it is dropped and charged 0.1 ms."""
        tables = toy_tables(Source((one(Kernel(hvx=400.0)),), deadline=150.0), horizon_ns=500_000)
        taken = record(RUNS, [WAITS], tables, EPISODE[0], 0)
        before = taken.lanes.tobytes(), taken.views.tobytes(), taken.masks.tobytes()
        fates = carry_out(RUNS, taken, [(0, encode(0, HVX, 0, 0)), (0, WAIT)], range(3), 1000.0)
        np.testing.assert_allclose(fates.returns, [[0.1] * 3, [-0.1] * 3])
        np.testing.assert_array_equal(fates.misses, [[0] * 3, [1] * 3])
        np.testing.assert_array_equal(fates.finished, [[1] * 3, [0] * 3])
        assert (taken.lanes.tobytes(), taken.views.tobytes(), taken.masks.tobytes()) == before

    def test_a_span_ends_and_the_horizon_does_not(self):
        """Jobs every ms for 3 ms; the episode ends after 0.5 ms, the fork where it was told to."""
        source = Source((one(Kernel(hvx=400.0)),), times=(0.0, 1000.0, 2000.0))
        taken = record(RUNS, [WAITS], toy_tables(source, horizon_ns=500_000), EPISODE[0], 0)
        for span_us, finished in ((500.0, 1), (1500.0, 2), (2500.0, 3)):
            fates = carry_out(RUNS, taken, [(0, int(taken.explained[0]))], range(2), span_us)
            np.testing.assert_array_equal(fates.finished, [[finished] * 2])

    def test_choices_meet_the_same_futures_and_futures_differ(self, recording, monkeypatch):
        rule, action = agents.make("slack_gate"), int(recording.explained[5])
        cases = [(5, action), (5, WAIT), (5, action)]
        fates = carry_out(rule, recording, cases, range(6), 5000.0)
        np.testing.assert_array_equal(fates.returns[0], fates.returns[2])
        assert len(set(fates.returns[0])) > 1
        monkeypatch.setattr("eval.choices._LANES", 1)
        again = carry_out(rule, recording, cases, range(6), 5000.0)
        np.testing.assert_array_equal(again.returns, fates.returns)

    def test_the_decision_that_matters_is_found(self):
        """They differ whenever a job comes; only the second job is due so soon that holding it loses it."""
        loose = Source((one(Kernel(hvx=400.0)),), times=(0.0, 12_000.0), names="loose")
        tight = Source((one(Kernel(hvx=400.0)),), times=(6000.0,), deadline=150.0, names="tight")
        taken = record(RUNS, [WAITS], toy_tables(loose, tight, horizon_ns=18_000_000), EPISODE[0], 0)
        assert len(taken.disagreements()) == 3
        (decision,) = most_telling(RUNS, taken, 1, 4000.0)
        assert taken.lanes["now_ns"][decision] == 6_000_000
        assert len(most_telling(RUNS, taken, 3, 4000.0)) == 3
        assert most_telling(RUNS, record(RUNS, [RUNS], taken.tables, EPISODE[0], 0), 3, 4000.0) == []

    def test_choices_frame_pairs_gains_with_the_explained_choice(self):
        tables = toy_tables(Source((one(Kernel(hvx=400.0)),), deadline=150.0), horizon_ns=500_000)
        taken = record(RUNS, [WAITS, Fixed("too", encode(0, HVX, 0, 0), WAIT)], tables, EPISODE[0], 0)
        own, other = choices_frame(RUNS, taken, [0], None, 4, 1000.0).to_dict("records")
        assert (own["chosen_by"], other["chosen_by"]) == ("runs too", "waits")
        assert (own["return_gain"], other["return_gain"]) == pytest.approx((0.0, -0.2))
        assert (other["return_se"], other["misses_gain"], other["finished_gain"]) == pytest.approx((0.0, 1.0, -1.0))

    def test_candidates_are_the_legal_actions_with_their_profiles(self, recording):
        frame = candidates_frame(recording, [5, 9])
        for decision in (5, 9):
            own = frame[frame["decision"] == decision]
            assert own["action"].tolist() == np.flatnonzero(recording.masks[decision]).tolist()
            chosen = {name for text in own["chosen_by"] for name in text.split()}
            assert chosen == set(recording.actions)
        row = frame[frame["action"] > 0].iloc[0]
        pick, tables = decode(int(row["action"])), recording.tables
        op = recording.views[5]["tasks"][pick.task]["op"]
        variant = tables.variants[tables.ops["variant"][op, pick.version, pick.tile]]
        assert row["vtcm_kib"] == variant["vtcm_bytes"] / 1024
        assert row["alone_us"] == variant["alone_ns"][int(row["contexts"])] / 1e3


class TestGateSettings:
    def test_no_weights_are_the_settings_of_triage_gate_everywhere(self, short_tables, recording):
        gate = LearnedGate(np.zeros((N_SETTINGS, N_FEATURES)))
        states, moves = gate_settings(gate, recording, [5, 9], held_out(short_tables, 2))
        triage, pairing = agents.make("triage_gate").triage, agents.make("triage_gate").pairing
        values = [triage.speed, pairing.margin / 1e6, pairing.least_gain, pairing.guard, triage.rest_power]
        values += [triage.loss_power, triage.soft, pairing.guest_gain, pairing.tile_price]
        at_rest = dict(zip(NAMES, values, strict=True))
        for decision in (5, 9):
            own = states[(states["decision"] == decision) & (states["kind"] == "setting")]
            assert dict(zip(own["name"], own["value"], strict=True)) == pytest.approx(at_rest)
        for row in moves.to_dict("records"):
            assert row["p10"] == row["p50"] == row["p90"] == pytest.approx(at_rest[row["setting"]])

    def test_a_setting_moves_with_the_jobs_it_depends_on(self, short_tables, recording):
        """1.5 ms x 2 ** (1.4 (n / 4 - 0.5)) for n jobs, and every decision is counted once."""
        weights = np.zeros((N_SETTINGS, N_FEATURES))
        weights[1, 5] = 1.0
        gate, episodes = LearnedGate(weights), held_out(short_tables, 3)
        moves = gate_settings(gate, recording, [5], episodes).moves
        margins = moves[moves["setting"] == "margin, ms"].set_index(["against", "bin"])
        jobs = margins.loc["jobs"]
        for name in set(jobs.index) - {"4 or more"}:
            assert jobs.loc[name, "p50"] == pytest.approx(1.5 * 2 ** (1.4 * (int(name) / 4 - 0.5)))
        decisions = run(gate, short_tables, episodes).episodes["decisions"].sum()
        assert margins.loc[("all", "all"), "decisions"] == decisions
        assert jobs["decisions"].sum() == margins.loc["load", "decisions"].sum() == decisions

    def test_rules_have_none(self, recording):
        assert gate_settings(agents.make("triage_gate"), recording, [5], ()) is None


class TestHabits:
    def test_versions_against_load(self):
        """HVX on an idle device and HMX beside it: the resident then asks for all of HVX and none of HMX."""
        tables = two_streams()
        log, _ = play_log(Fixed("toy", encode(0, HVX, 0, 0), encode(0, HMX, 0, 0)), tables, EPISODE)
        row = overview_row("toy", log, 0.0, 1)
        assert (row["decisions"], row["waits"], row["pairs"], row["free_choices"]) == (8, 0.0, 1.0, 1.0)
        assert (row["hvx"], row["hmx"], row["hybrid"]) == (0.5, 0.5, 0.0)
        assert np.isnan(row["mean_share"])
        versions = versions_frame("toy", log, tables).set_index(["engine", "load"])
        counts = {key: tuple(own[["picks", "hvx", "hmx", "hybrid"]]) for key, own in versions.iterrows()}
        assert {key: value for key, value in counts.items() if value[0]} == {
            ("hvx", "idle"): (4, 4, 0, 0),
            ("hvx", "75-100 %"): (4, 0, 4, 0),
            ("hmx", "idle"): (4, 4, 0, 0),
            ("hmx", "0-25 %"): (4, 0, 4, 0),
        }

    def test_when_it_waits(self):
        """It waits beside a resident, where one job runs and one is in view with 4.9 ms of slack."""
        log, _ = play_log(RUNS, two_streams(), EPISODE)
        frame = waits_frame("runs", log).set_index(["against", "bin"])
        assert frame.loc[("residents", "none"), "waits"] == 0.0
        assert frame.loc[("residents", "one"), ["waits", "pairs"]].tolist() == [1.0, 0.0]
        assert frame.loc[("slack", "2-5 ms"), "decisions"] == len(log)
        assert frame.loc[("backlog", "2"), "decisions"] == int(log["beside"].sum()) + 4
        assert frame.loc[("backlog", "1"), "decisions"] == 4

    def test_mean_share_of_joins(self):
        log, _ = play_log(Fixed("toy", encode(0, HVX, 0, 0), encode(0, HVX, 0, 2)), two_streams(), EPISODE)
        assert overview_row("toy", log, 0.0, 1)["mean_share"] == 0.75

    def test_lanes_that_are_over_are_not_counted(self, short_tables):
        """Each decision is a row, whatever the number of episodes played at once."""
        episodes = held_out(short_tables, 3)
        log, mean_return = play_log(agents.make("slack_gate"), short_tables, episodes)
        frame = run(agents.make("slack_gate"), short_tables, episodes).episodes
        assert len(log) == frame["decisions"].sum()
        assert log["waits"].sum() == pytest.approx((frame["wait_share"] * frame["decisions"]).sum())
        assert mean_return == pytest.approx(frame["return"].mean())


FAST = ["--explain", "--episodes", "2", "--decisions", "2"]
RULES = ["--scenario", "camera_decode", "--schedulers", "slack_gate,online_pairs,orion", "--horizon-us", "10000"]
FILES = {
    "explain.html",
    *(f"explain_{name}.csv" for name in ("choices", "candidates", "overview", "versions", "waits")),
}


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class TestCommand:
    def test_the_same_command_gives_the_same_bytes(self, tmp_path, capsys):
        options = [*FAST, *RULES, "--out", str(tmp_path)]
        assert main(options) == 0
        first = contents(tmp_path)
        assert set(first) == FILES
        assert main(options) == 0
        assert contents(tmp_path) == first
        printed = capsys.readouterr().out
        assert "Left out: orion" in printed
        assert f"page: {tmp_path / 'explain.html'}" in printed
        page = first["explain.html"].decode()
        assert "Left out: orion" in page
        for decision in pd.read_csv(tmp_path / "explain_choices.csv")["decision"]:
            assert f"Decision {decision} at " in page

    def test_decisions_can_be_named(self, tmp_path):
        assert main([*FAST, *RULES, "--at", "7,3", "--episode", "1", "--out", str(tmp_path)]) == 0
        assert pd.read_csv(tmp_path / "explain_choices.csv")["decision"].unique().tolist() == [3, 7]

    def test_a_policy_is_explained_with_its_probabilities(self, trained, tmp_path):
        options = [
            "--explain",
            "--episodes",
            "2",
            "--at",
            "3,7",
            "--checkpoint",
            str(trained),
            "--schedulers",
            "greedy_versions",
            "--out",
            str(tmp_path),
        ]
        assert main(options) == 0
        candidates = pd.read_csv(tmp_path / "explain_candidates.csv")
        np.testing.assert_allclose(candidates.groupby("decision")["probability"].sum(), 1.0)
        for _, own in candidates.groupby("decision"):
            own = own.set_index("action")
            chosen = own.index[own["chosen_by"].fillna("").str.contains("learned")].item()
            picks = own["probability"].drop(WAIT)
            assert chosen == (WAIT if own.loc[WAIT, "probability"] >= picks.sum() else picks.idxmax())
        assert pd.read_csv(tmp_path / "explain_overview.csv")["scheduler"].tolist() == ["learned", "greedy_versions"]

    def test_a_learned_gate_is_explained_with_its_settings(self, trained_gate, tmp_path):
        options = ["--at", "3,7", "--checkpoint", str(trained_gate), "--schedulers", "triage_gate"]
        assert main([*FAST, *options, "--out", str(tmp_path)]) == 0
        assert {path.name for path in tmp_path.iterdir()} == FILES | {"explain_states.csv", "explain_settings.csv"}
        assert pd.read_csv(tmp_path / "explain_candidates.csv")["probability"].isna().all()
        assert pd.read_csv(tmp_path / "explain_states.csv")["decision"].unique().tolist() == [3, 7]
        page = (tmp_path / "explain.html").read_text()
        assert "How its settings move" in page
        assert page.count("the features that led to these settings") == 2

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--explain"], "needs --checkpoint, or --scenario and --schedulers"),
            (["--explain", "--scenario", "camera_decode,grid", "--schedulers", "edf,serial"], "one scenario"),
            (["--explain", *RULES, "--episode", "-1"], "--episode -1"),
            (["--explain", *RULES, "--decisions", "0"], "--decisions 0"),
            (["--explain", *RULES, "--episodes", "0"], "episodes 0"),
            (["--explain", *RULES, "--at", "1000000"], "--at 1000000"),
            (["--explain", *RULES, "--at", "few"], "whole numbers"),
            (["--explain", *RULES, "--markdown"], "--markdown"),
            (["--explain", "--scenario", "camera_decode", "--schedulers", "edf,orion"], "nobody to be compared"),
            (["--explain", "--checkpoint", "missing", "--device", "v79"], "--device cannot be given"),
            ([*RULES, "--at", "3"], "--explain, which was not given"),
        ],
    )
    def test_wrong_input_is_one_line_and_exit_code_2(self, tmp_path, monkeypatch, refusal, arguments, words):
        monkeypatch.chdir(tmp_path)
        assert words in refusal(main, arguments)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]

    def test_schedulers_that_agree_everywhere_have_nothing_to_tell(self, tmp_path, capsys):
        options = ["--scenario", "camera_decode", "--schedulers", "slack_gate,online_versions", "--horizon-us", "5000"]
        assert main([*FAST, *options, "--out", str(tmp_path)]) == 2
        assert "agree at each of the" in capsys.readouterr().err
