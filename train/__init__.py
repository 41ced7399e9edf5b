"""The training job: ``python -m train`` trains the learned scheduler with PPO and evaluates it."""
