"""Constants of a device from logs of its own: ``python -m hexenv.calibrate``.

``observations`` turns a log into times that the model predicts, ``identify`` says which constants they can tell apart,
``calibration`` fits those, ``device_file`` writes them and ``report`` shows what came out.
"""

from hexenv.calibrate.calibration import Calibration, calibrate
from hexenv.calibrate.observations import Observation, observe

__all__ = ["Calibration", "Observation", "calibrate", "observe"]
