"""What every part of Headrace stands on: the clock, the error tree, names and tokens, guarded moves, doorbells.

May import the standard library; `states`, `hints` and `models` also import Django. Never imports a sibling package.
"""
