"""What learner code sees of this package while it is graded: the sandbox mounts these files.

`package.py` stands there for `attncourse/__init__.py`, `grading.py` for
`attncourse/grading/__init__.py`. The real package holds answers, so it stays outside.
"""
