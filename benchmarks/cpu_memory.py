"""Peak memory of every rung, each in a process of its own: about a minute and a half.

Run ``python benchmarks/cpu_memory.py``; it writes results/cpu_memory.json beside itself.
"""

from pathlib import Path

from attncourse.measure.bench import measure

if __name__ == "__main__":
    measure("memory", lengths=(1024, 4096), folder=Path(__file__).parent / "results")
