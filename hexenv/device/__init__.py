"""What the silicon can do: typed, validated device constants with their sources."""

from hexenv.device.constants import CONFIDENCES, Constant
from hexenv.device.device import PIPELINES, UNITS, Device, device_names, load_device

__all__ = ["CONFIDENCES", "PIPELINES", "UNITS", "Constant", "Device", "device_names", "load_device"]
