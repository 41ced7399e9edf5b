"""Runs schedulers on held-out episodes and says how good they are: metrics, paired statistics, table, CSV, report."""
