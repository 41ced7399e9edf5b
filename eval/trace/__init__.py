"""Episodes as trace files for the Perfetto UI and chrome://tracing: ``python -m eval.trace``."""
