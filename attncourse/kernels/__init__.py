"""Attention as Triton kernels: what the rung `triton` launches, one kernel a file.

In reading order: `runtime` (interpreter or GPU, decided once), `blocks` (how large a tile),
`tiles` (what every kernel does with one tile), `forward`, `delta`, `dkdv`, `dq` (the
kernels), `launch` (their arguments), `ops` (the kernels as operators that torch knows),
`report` (what the compiler made of them). Importing this package costs nothing.
"""
