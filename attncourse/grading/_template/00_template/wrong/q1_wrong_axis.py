"""Averages of the columns.

Which axis is gone?
"""


def row_average(matrix):
    return matrix.mean(axis=0)
