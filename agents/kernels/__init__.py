"""The compiled pieces that the rules share: order of tasks, predicted times of one or two stages, choice of a partner.

A prediction uses only what a scheduler knows, the profiles of the variants and the view. It is a closed form that a
real scheduler would use, not the engine's law of motion. Records are those of ``hexenv.engine.layout``; times are float
ns. Files build on one another in this order: ``tasks``, ``predict``, ``deadlines``, ``pairs``; each other one holds
what one kind of rule does with them.
"""
