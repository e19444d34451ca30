"""Train the course's GPT on several devices, each with a part of the batch: the script.

New here: nothing that computes; `attncourse.parallel.training` does that. This file reads the
command line, says from rank 0 how far training is, saves at every interval, and goes on from the
newest checkpoint when it is started again, by hand or by torchrun's --max-restarts.

Run it with: torchrun --standalone --nproc-per-node 2 -m attncourse.parallel.data_parallel
On several hosts, start the same on each of them with an address on which they meet:
torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29500 -m …
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

from attncourse.parallel import groups, launch
from attncourse.parallel.training import STRATEGIES, Report, Training

__all__ = ["main"]


def _train(options: argparse.Namespace, process: launch.Process, strategy: str) -> Report:
    """Train once, saying from rank 0 how far it is."""
    training = Training(options, process, strategy)
    done, start = training.resume(), time.perf_counter()
    ids = [facts[0] for facts in groups.gather_facts([os.getpid()])]
    launch.say(process, f"{strategy}: {process.world_size} ranks, processes {ids}, step {done}")
    for step in range(done + 1, options.steps + 1):
        training.step(step)
        if step % options.every == 0 or step == options.steps:
            seconds = time.perf_counter() - start
            loss = training.report.losses[-1]
            launch.say(process, f"step {step}/{options.steps}  loss {loss:.4f}  {seconds:.1f} s")
            if training.folder is not None:
                training.save(step)
    if training.sent:
        training.report.sent_a_step = float(torch.tensor(training.sent).double().median())
    return training.report


def _run(options: argparse.Namespace, process: launch.Process) -> None:
    reports = [_train(options, process, strategy) for strategy in options.strategy]
    for report in reports if options.check else []:
        worst = max(report.grad_errors)
        apart = max(abs(a - b) for a, b in zip(report.losses, report.alone, strict=True))
        launch.say(
            process,
            f"{report.strategy} against one process: gradients {worst:.1e} apart (relative), "
            f"losses {apart:.1e}",
        )
        if not max(worst, apart) <= options.limit:
            raise ValueError(
                f"{report.strategy} is further than {options.limit:g} from one process"
            )
    if options.json and process.rank == 0:
        text = json.dumps([asdict(report) for report in reports])
        options.json.write_text(text, encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="attncourse.parallel.data_parallel",
        description="Train a small GPT on Python's manual, each rank with a part of the batch.",
    )
    add = parser.add_argument
    add("--strategy", nargs="+", choices=STRATEGIES, default=["ddp"])
    add("--steps", type=int, default=40)
    add("--batch", type=int, default=8, help="rows of the whole batch; need not divide")
    add("--seq-len", type=int, default=64)
    add("--lr", type=float, default=1e-3)
    add("--seed", type=int, default=0)
    add("--dtype", choices=("float32", "float64"), default="float32")
    add("--every", type=int, default=10, help="steps between two reports and two checkpoints")
    add("--checkpoint", type=Path, help="save in this folder, and go on from what is there")
    add("--check", action="store_true", help="train in one process too, and compare")
    add("--limit", type=float, default=1e-5, help="how far apart --check lets them be")
    add("--json", type=Path, help="write the reports of rank 0 to this file")
    add("--backend", choices=("auto", "gloo", "nccl"), default="auto")
    add("--timeout", type=float, default=launch.TIMEOUT, help="seconds to wait for another rank")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the script; see ``--help``."""
    options = _parser().parse_args(arguments)
    return launch.run(
        lambda process: _run(options, process), timeout=options.timeout, backend=options.backend
    )


if __name__ == "__main__":
    sys.exit(main())
