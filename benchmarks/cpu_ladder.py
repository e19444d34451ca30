"""Every rung against PyTorch on one CPU thread: about three minutes on a quiet machine.

Run ``python benchmarks/cpu_ladder.py``; it writes results/cpu_ladder.json beside itself.
"""

from pathlib import Path

from attncourse.measure.bench import measure

if __name__ == "__main__":
    measure(
        "ladder",
        lengths=(64, 512, 1024, 2048, 4096, 8192),
        seconds=2.0,
        folder=Path(__file__).parent / "results",
    )
