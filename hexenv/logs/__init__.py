"""Profile logs of llama.cpp's Hexagon backend: text in, records out. What they mean to the model is said elsewhere."""

from hexenv.logs.reader import parse, read_log
from hexenv.logs.records import Batch, Event, Hardware, Log, LoggedOp, Tensor, Window

__all__ = ["Batch", "Event", "Hardware", "Log", "LoggedOp", "Tensor", "Window", "parse", "read_log"]
