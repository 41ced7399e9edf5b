"""Speculative verification: the tokens of a draft go through the model together, as far as they are worth it.

A smaller model, or the same one, has drafted tokens; one step of the large model checks a window of them and keeps the
longest prefix that it agrees with, and one token of its own behind it. Rows of the window share weights, in a mixture
of experts those of the experts that several tokens visit (BigMoMo, arXiv 2609.14643).

The acceptance is data: the chance that a draft token is kept if all before it are.
"""

from __future__ import annotations

from hexenv.kernels.matmul import Weight
from hexenv.workload.formats import WEIGHTS
from hexenv.workload.graph import Graph
from hexenv.workload.language import forward_pass
from hexenv.workload.models import LanguageModel


def verified_tokens(window: int, acceptance: float, prune: float = 0.0) -> int:
    """Tokens of a window that are checked: the last one known, and drafts reached with a chance of at least ``prune``.

    BigMoMo leaves out drafts whose cost outweighs their chance.
    """
    return 1 + sum(acceptance**draft >= prune for draft in range(1, window))


def kept_tokens(tokens: int, acceptance: float) -> float:
    """Expected tokens that a step gains when it checks ``tokens``: ``1 + a + ... + a ** (tokens - 1)``."""
    return sum(acceptance**draft for draft in range(tokens))


def verify_step(
    model: LanguageModel,
    window: int,
    context: int,
    acceptance: float,
    prune: float = 0.0,
    head: Weight | None = WEIGHTS,
) -> Graph:
    """One window of ``window`` tokens after ``context`` earlier ones; the logits of all its tokens are wanted.

    Streams run it closed loop. KV rows of refused drafts stay in the cache until the next window overwrites them.
    """
    tokens = verified_tokens(window, acceptance, prune)
    name = f"{model.name} verify {tokens}@{context}, keeps {kept_tokens(tokens, acceptance):.1f}"
    return forward_pass(model, name, tokens=tokens, past=context, outputs=tokens, head=head)
