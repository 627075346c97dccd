"""The paper itself: what it says, what it proves, what it measured, and the data it used.

`reference` holds the algorithms in NumPy, `theory` the theorems as functions, `experiments` the
published figures and tables, `datasets` the data sets, and `demonstration` the one-minute
comparison. Nothing outside this package imports it; `commands` are loaded when they are called.
"""
