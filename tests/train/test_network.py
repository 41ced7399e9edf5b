"""The policy network: shared weights over tasks, any K, masks, and agreement with sb3-contrib's distribution."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from agents.network import CONTEXT_KEYS, TaskPolicy
from hexenv.action import ACTIONS_PER_TASK

SHAPES = {"residents": (2, 5), "vtcm": (4,), "streams": (8, 3), "device": (6,)}


def make_policy(visible: int, seed: int = 0) -> TaskPolicy:
    torch.manual_seed(seed)
    shapes = {"tasks": (visible, 7), "profiles": (visible, 60), **SHAPES}
    space = spaces.Dict({key: spaces.Box(-1, 1, shape, np.float32) for key, shape in shapes.items()})
    policy = TaskPolicy(space, spaces.Discrete(1 + visible * ACTIONS_PER_TASK), lambda progress: 1e-3)
    with torch.no_grad():  # logits start out nearly equal: make them differ
        policy.actor.head.get_parameter("3.weight").mul_(100)
        policy.actor.wait.weight.mul_(100)
    return policy


def random_state(visible: int, batch: int = 5, tasks: int | None = None) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    state = {key: torch.randn(batch, *shape) for key, shape in SHAPES.items()}
    state |= {"tasks": torch.randn(batch, visible, 7), "profiles": torch.randn(batch, visible, 60)}
    if tasks is not None:
        state["tasks"][:, tasks:] = 0
        state["profiles"][:, tasks:] = 0
    return state


def random_masks(batch: int, actions: int) -> np.ndarray:
    masks = np.random.default_rng(3).random((batch, actions)) < 0.2
    masks[:, 0] = True
    return masks


def all_logits(policy: TaskPolicy, state: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        return policy.actor(state)


def test_permuting_tasks_permutes_their_logits_and_nothing_else() -> None:
    policy, state = make_policy(6), random_state(6)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    permuted = state | {key: state[key][:, order] for key in ("tasks", "profiles")}
    before, after = all_logits(policy, state), all_logits(policy, permuted)
    rows = before[:, 1:].reshape(5, 6, ACTIONS_PER_TASK)
    torch.testing.assert_close(after[:, 1:].reshape(5, 6, ACTIONS_PER_TASK), rows[:, order])
    torch.testing.assert_close(after[:, 0], before[:, 0])
    torch.testing.assert_close(policy.predict_values(permuted), policy.predict_values(state))
    assert rows.std(1).min() > 1e-4, "tasks must differ for this test to mean anything"


def test_weights_of_one_k_work_for_another() -> None:
    small, large = make_policy(3, seed=0), make_policy(7, seed=9)
    large.load_state_dict(small.state_dict())
    state = random_state(7, tasks=3)
    cut = state | {key: state[key][:, :3] for key in ("tasks", "profiles")}
    torch.testing.assert_close(all_logits(large, state)[:, : 1 + 3 * ACTIONS_PER_TASK], all_logits(small, cut))
    torch.testing.assert_close(large.predict_values(state), small.predict_values(cut))


def test_a_state_without_tasks_is_finite() -> None:
    policy = make_policy(4)
    state = random_state(4, tasks=0)
    assert torch.isfinite(policy.predict_values(state)).all()
    assert torch.isfinite(all_logits(policy, state)).all()


@pytest.mark.parametrize("key", ["tasks", "profiles", *CONTEXT_KEYS])
def test_every_part_of_the_observation_matters(key: str) -> None:
    policy, state = make_policy(4), random_state(4)
    changed = state | {key: state[key] + 1.0}
    assert not torch.allclose(all_logits(policy, state), all_logits(policy, changed))
    assert not torch.allclose(policy.predict_values(state), policy.predict_values(changed))


def test_only_legal_actions_are_drawn() -> None:
    policy, state = make_policy(4), random_state(4, batch=300)
    masks = random_masks(300, 1 + 4 * ACTIONS_PER_TASK)
    for deterministic in (False, True):
        actions, _, log_probs = policy(state, deterministic, action_masks=masks)
        assert masks[np.arange(300), actions.numpy()].all()
        assert torch.isfinite(log_probs).all()
    only_wait = np.zeros_like(masks)
    only_wait[:, 0] = True
    actions, _, log_probs = policy(state, action_masks=only_wait)
    assert (actions == 0).all()
    torch.testing.assert_close(log_probs, torch.zeros(300))


@pytest.mark.parametrize("masked", [True, False])
def test_log_probabilities_and_entropy_are_those_of_sb3(masked: bool) -> None:
    policy, state = make_policy(4), random_state(4, batch=50)
    masks = random_masks(50, 1 + 4 * ACTIONS_PER_TASK) if masked else None
    actions, values, log_probs = policy(state, action_masks=masks)
    again, log_probs_again, entropy = policy.evaluate_actions(
        state, actions, None if masks is None else torch.from_numpy(masks)
    )
    reference = policy.get_distribution(state, masks)
    torch.testing.assert_close(log_probs, reference.log_prob(actions))
    torch.testing.assert_close(log_probs_again, log_probs)
    torch.testing.assert_close(entropy, reference.entropy())
    torch.testing.assert_close(values, again)
    torch.testing.assert_close(values, policy.predict_values(state))


def test_masked_entropy_has_finite_gradients() -> None:
    policy, state = make_policy(4), random_state(4)
    masks = torch.from_numpy(random_masks(5, 1 + 4 * ACTIONS_PER_TASK))
    _, log_probs, entropy = policy.evaluate_actions(state, torch.zeros(5), masks)
    (log_probs + entropy).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in policy.parameters() if p.grad is not None)


def test_draws_follow_the_probabilities() -> None:
    policy = make_policy(1)
    state = {key: array[:1].expand(20_000, *array.shape[1:]) for key, array in random_state(1).items()}
    actions, _, _ = policy(state)
    expected = torch.softmax(all_logits(policy, state)[0], -1)
    frequencies = torch.bincount(actions, minlength=len(expected)) / len(actions)
    assert (frequencies - expected).abs().max() < 0.02


def test_policy_survives_save_and_load(tmp_path) -> None:
    policy, state = make_policy(4), random_state(4)
    policy.save(tmp_path / "policy.pth")
    loaded = TaskPolicy.load(tmp_path / "policy.pth")
    torch.testing.assert_close(all_logits(loaded, state), all_logits(policy, state))
