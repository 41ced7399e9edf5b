"""All studies by name."""

from __future__ import annotations

from eval.studies.drift import DRIFT
from eval.studies.durations import DURATIONS
from eval.studies.fusion import FUSION
from eval.studies.study import Study
from eval.studies.tiles import TILES
from eval.studies.versions import VERSIONS

STUDIES: dict[str, Study] = {study.name: study for study in (FUSION, VERSIONS, DRIFT, TILES, DURATIONS)}
