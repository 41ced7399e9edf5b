from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st

from hexenv import action
from hexenv.engine.layout import MAX_VISIBLE, VIEW
from hexenv.errors import ConfigError

PICKS = st.builds(action.Pick, st.integers(0, MAX_VISIBLE - 1), st.integers(0, 2), st.integers(0, 3), st.integers(0, 2))


@given(PICKS)
def test_every_pick_has_its_own_index(pick):
    index = action.encode(*pick)
    assert 1 <= index <= MAX_VISIBLE * 36
    assert action.decode(index) == pick


def test_every_index_is_one_action():
    picks = [action.decode(index) for index in range(1 + 8 * 36)]
    assert picks[0] is None
    assert len(set(picks)) == len(picks)
    assert [action.encode(*pick) for pick in picks[1:]] == list(range(1, 1 + 8 * 36))


def test_share_varies_fastest_and_task_slowest():
    assert action.encode(0, 0, 0, 1) == 2
    assert action.encode(0, 0, 1, 0) == 4
    assert action.encode(0, 1, 0, 0) == 13
    assert action.encode(1, 0, 0, 0) == 37


@pytest.mark.parametrize("parts", [(-1, 0, 0, 0), (0, 3, 0, 0), (0, 0, 4, 0), (0, 0, 0, 3), (0, -1, 0, 0)])
def test_parts_out_of_range_are_refused(parts):
    with pytest.raises(ValueError, match=r"-1|3|4"):
        action.encode(*parts)


def test_negative_index_is_refused():
    with pytest.raises(ValueError, match="-1"):
        action.decode(-1)


def test_description_names_stage_version_and_tile(tables):
    view = np.zeros((), VIEW)[()]
    view["n_tasks"] = 2
    text = action.describe(action.encode(1, 2, 3, 0), view, tables)
    assert tables.op_names[0] in text
    assert tables.stream_names[0] in text
    assert "HYBRID" in text
    assert "tile 1," in text
    assert "no such task: 2 are visible" in action.describe(action.encode(5, 0, 0, 0), view, tables)
    assert action.describe(0, view, tables) == "wait"
    assert "outside 0..288" in action.describe(1000, view, tables)


def test_flat_sample_without_mask_is_wait_and_with_mask_legal():
    space = action.MaskedDiscrete(289)
    space.seed(0)
    assert {int(space.sample()) for _ in range(20)} == {0}
    mask = np.zeros(289, np.int8)
    mask[[3, 200]] = 1
    assert {int(space.sample(mask)) for _ in range(50)} == {3, 200}


def test_batched_sample_without_mask_is_wait_and_with_mask_legal():
    space = batch_space(action.MaskedDiscrete(5), 3)
    assert space.sample().tolist() == [0, 0, 0]
    mask = np.array([[0, 1, 0, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0]], np.int8)
    assert space.sample(tuple(mask)).tolist() == [1, 4, 0]


def _mask(tables, *legal):
    mask = np.zeros((1, tables.n_actions), np.bool_)
    mask[0, 0] = True
    for pick in legal:
        mask[0, action.encode(*pick)] = True
    return mask


@pytest.mark.parametrize(
    ("legal", "asked", "executed"),
    [
        ([(2, 1, 2, 0)], (3, 1, 2, 0), (2, 1, 2, 0)),  # legal as it is
        ([(2, 1, 0, 0), (2, 0, 2, 0)], (3, 1, 2, 0), (2, 1, 0, 0)),  # the same version wins over the same tile
        ([(2, 0, 1, 0), (2, 0, 2, 2)], (3, 0, 2, 0), (2, 0, 2, 2)),  # the same tile wins over the same share
        ([(2, 0, 1, 0), (2, 0, 3, 0)], (3, 0, 2, 0), (2, 0, 1, 0)),  # the lower one at a tie
        ([(1, 0, 0, 0)], (3, 0, 0, 0), None),  # nothing of this task: wait
    ],
)
def test_infeasible_mix_becomes_the_nearest_variant_of_its_task(tables, legal, asked, executed):
    factored = action.FactoredActions(tables)
    index, repaired = factored.to_index(np.array([asked]), _mask(tables, *legal))
    assert action.decode(int(index[0])) == (None if executed is None else action.Pick(*executed))
    assert bool(repaired[0]) == (executed is None or executed != (asked[0] - 1, *asked[1:]))


def test_wait_is_never_repaired(tables):
    index, repaired = action.FactoredActions(tables).to_index(np.array([[0, 2, 3, 1]]), _mask(tables, (0, 0, 0, 0)))
    assert index.tolist() == [0]
    assert repaired.tolist() == [False]


def test_factored_masks_are_the_parts_in_order(tables):
    factored = action.FactoredActions(tables)
    mask = factored.masks(_mask(tables, (0, 1, 2, 0), (3, 0, 3, 0)))[0]
    assert mask.shape == (1 + tables.visible + 3 + 4 + 3,)
    task, version, tile, share = np.split(mask, np.cumsum(factored.nvec)[:-1])
    assert np.flatnonzero(task).tolist() == [0, 1, 4]
    assert np.flatnonzero(version).tolist() == [0, 1]
    assert np.flatnonzero(tile).tolist() == [2, 3]
    assert np.flatnonzero(share).tolist() == [0]


def test_factored_masks_leave_no_part_empty(tables):
    mask = action.FactoredActions(tables).masks(_mask(tables))[0]
    assert mask[0]
    assert not mask[1 : 1 + tables.visible].any()
    assert mask[1 + tables.visible :].all()


def test_factored_parts_out_of_range_are_refused(tables):
    with pytest.raises(ValueError, match="not all in 0"):
        action.FactoredActions(tables).to_index(np.array([[1, 3, 0, 0]]), _mask(tables))


def test_unknown_flavour_names_the_allowed_ones(tables):
    with pytest.raises(ConfigError, match=r"'other'.*flat, factored"):
        action.make_actions("other", tables)
