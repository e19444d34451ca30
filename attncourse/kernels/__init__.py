"""Attention as Triton kernels: what the rung `triton` launches, one kernel a file.

In reading order: `runtime` (interpreter or GPU, decided once), `blocks` (how large a tile),
`tiles` (what every kernel does with one tile), `forward`, `delta`, `dkdv`, `dq` (the
kernels), `arguments` and `launch` (from tensors to kernels), `ops` (the kernels as operators
that torch knows), `traffic` (the bytes they move). What the compiler makes of them is asked by
`attncourse.measure.kernel_report`. Importing this package costs nothing.
"""
