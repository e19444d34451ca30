"""Try the chapters under other seeds and other arithmetic: ``python make.py steady``.

What is here: `variations` (which seeds, which arithmetic), `instrument` (asserts rewritten so that
they tell by how much they hold), `watch` (runs inside the chapters' kernels), `report` (the table
and the results file), `__main__` (the command).
"""
