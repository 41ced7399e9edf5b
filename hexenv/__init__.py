"""A Gymnasium testbed for online operator pairing and version choice on phone NPUs (Qualcomm Hexagon).

Importing the package registers two environments, both with a native vector implementation:

* ``hexenv/Hexagon-v0``: one flat ``Discrete`` action (``hexenv.action`` documents the bijection);
* ``hexenv/HexagonMultiDiscrete-v0``: the factored action, whose infeasible mixes are repaired and flagged.

Neither sets ``max_episode_steps``: an episode ends at the scenario's horizon.
"""

from gymnasium.envs.registration import register

__version__ = "0.1.0"

for _id, _actions in (("hexenv/Hexagon-v0", "flat"), ("hexenv/HexagonMultiDiscrete-v0", "factored")):
    register(
        id=_id,
        entry_point="hexenv.env:HexagonEnv",
        vector_entry_point="hexenv.vector:HexagonVectorEnv",
        kwargs={"actions": _actions},
    )
