"""The paper: its algorithms, its theorems, its experiments and its data sets.

`reference` holds the algorithms in NumPy, `theory` the theorems as functions, `experiments` the
published figures and tables, `datasets` the data sets, and `demonstration` the one-minute
comparison. Nothing outside this package imports it; `commands` are loaded when they are called.
"""
