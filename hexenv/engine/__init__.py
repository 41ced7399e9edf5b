"""What happens: the batched event-driven simulator. It sees only arrays (``layout.py``)."""

from hexenv.engine.rng import episode_key
from hexenv.engine.simulator import IllegalAction, Simulator
from hexenv.engine.trace import TraceLevel

__all__ = ["IllegalAction", "Simulator", "TraceLevel", "episode_key"]
