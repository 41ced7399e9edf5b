"""Studies: one question each, answered by one command: ``python -m eval.studies NAME``."""
