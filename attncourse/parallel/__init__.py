"""Attention and training on many devices, started by torchrun.

The engine is `torch.distributed`; ours is only the algorithm. `ring` sends keys and values round a
ring, `ulysses` trades tokens for heads, `data_parallel` splits the batch. `sharding` says who holds
which tokens, `wire` moves and counts numbers, `launch` starts and ends processes cleanly,
`checkpoint` survives a killed one. `budget` predicts what a rank computes, sends and holds;
`cluster` simulates a thousand of them, `schedule` a ring of processing elements cycle by cycle.

Nothing is imported here, so that ``python -m attncourse.parallel.ring`` runs its module once.
"""
