from collections import Counter

import pytest

from eval.episodes import held_out
from hexenv.errors import ConfigError


def test_covers_the_whole_grid_once(toy_tables):
    episodes = held_out(toy_tables, 6)
    assert len(set(episodes)) == 6
    assert {e.setting for e in episodes} == {0, 1}
    assert {e.seed for e in episodes} == {100, 101, 102}


def test_covers_the_grid_when_settings_and_seeds_share_a_divisor(toy_tables):
    toy_tables.seeds = (100, 4)
    assert len(set(held_out(toy_tables, 8))) == 8


def test_any_prefix_is_spread_over_settings_and_repeats_no_seed(toy_tables):
    toy_tables.seeds = (100, 50)
    episodes = held_out(toy_tables, 31)
    settings = Counter(e.setting for e in episodes)
    assert max(settings.values()) - min(settings.values()) <= 1
    assert len({e.seed for e in episodes}) == 31
    assert episodes[:10] == held_out(toy_tables, 10)


@pytest.mark.parametrize("count", [0, -1, 7])
def test_refuses_more_episodes_than_are_declared(toy_tables, count):
    with pytest.raises(ConfigError, match=rf"episodes {count}: .*'toy'.*6 episodes.*1 to 6"):
        held_out(toy_tables, count)
