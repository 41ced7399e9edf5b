"""How good a schedule could be at most: bounds on the gain of overlap, on any episode's return, and exact optima."""
