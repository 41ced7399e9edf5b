"""The cost model against measurements: ``python -m hexenv.validate``.

``rows`` reads measured points, ``rules`` says which of them the model can be held to, ``subjects`` what it says for
them, ``fit`` how well constants found on one part of the rows serve the rest, ``sensitivity`` how much each constant
matters.
"""
