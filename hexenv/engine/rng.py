"""Counter-based random numbers: each draw is a pure function of a key and its place, never of the order of calls."""

from __future__ import annotations

import math

import numpy as np

from hexenv.engine.jit import njit

SETTING = 1
"""Purpose tags keep the draws of one place apart."""
PHASE = 2
ARRIVAL = 3
NOISE = 4

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@njit
def mix(x: np.uint64) -> np.uint64:
    """Finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bit words."""
    x = (x ^ (x >> _S30)) * _MIX_1
    x = (x ^ (x >> _S27)) * _MIX_2
    return x ^ (x >> _S31)


@njit
def draw(key: np.uint64, purpose: int, a: int, b: int, c: int) -> np.uint64:
    """64 random bits at place (purpose, a, b, c) of ``key``."""
    x = mix(key + _GOLDEN * np.uint64(purpose + 1))
    x = mix(x + _GOLDEN * np.uint64(a + 1))
    x = mix(x + _GOLDEN * np.uint64(b + 1))
    return mix(x + _GOLDEN * np.uint64(c + 1))


@njit
def uniform(bits: np.uint64) -> float:
    """Map 64 random bits to [0, 1)."""
    return np.float64(bits >> _S11) * (1.0 / 9007199254740992.0)


@njit
def exponential(u: float) -> float:
    """Map a uniform number in [0, 1) to a unit exponential."""
    return -math.log(1.0 - u)


@njit
def noise_factor(key: np.uint64, stream: int, job: int, stage: int, sigma: float) -> float:
    """Actual over predicted duration of a stage: log-normal with mean 1, its normal clipped at 3 sigma."""
    if sigma <= 0.0:
        return 1.0
    u = 1.0 - uniform(draw(key, NOISE, stream, job, 2 * stage))
    v = uniform(draw(key, NOISE, stream, job, 2 * stage + 1))
    normal = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
    normal = min(3.0, max(-3.0, normal))
    return math.exp(sigma * normal - 0.5 * sigma * sigma)


def episode_key(seed: int, episode: int) -> np.uint64:
    """Key of the ``episode``-th episode (from 0) after seeding with ``seed`` (taken modulo 2**64)."""
    with np.errstate(over="ignore"):
        return np.uint64(draw(np.uint64(seed % (1 << 64)), 0, episode, 0, 0))
