"""The training job: ``python -m train`` trains a learned scheduler and evaluates it."""
