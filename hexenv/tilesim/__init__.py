"""The slow, tile-by-tile simulator that the engine's fluid model is checked against.

It knows per-tile work (``StageCost``) and raw rates of the device, and no formula of the engine: what overlaps, what
waits and what slows down comes from queues, buffers and the order of a kernel's steps.
"""

from hexenv.tilesim.chip import Arbitration, Chip, chip_of
from hexenv.tilesim.engines import Record
from hexenv.tilesim.machine import Launch, Play, StageRun, play

__all__ = ["Arbitration", "Chip", "Launch", "Play", "Record", "StageRun", "chip_of", "play"]
