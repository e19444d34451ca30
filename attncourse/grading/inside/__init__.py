"""What runs in the sandbox: these files are all that is shown there of the package.

`worker` serves the grader, `shell` runs cells, `left_out` lets them run on, `calls` answers calls,
`wire` is the format between the two sides, and `confine` gives up what learner code must never
have. They import NumPy, IPython and each other only. Of `stand_ins`, `package.py` is shown as
`attncourse/__init__.py` and `grading.py` as `attncourse/grading/__init__.py`: the real ones lead to
answers and stay outside.
"""
