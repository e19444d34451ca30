"""The rungs without a whole matrix against five plain lines that build it: about two minutes.

Run ``python benchmarks/cpu_tiles.py``; it writes results/cpu_tiles.json beside itself.
"""

from pathlib import Path

from attncourse.measure.bench import measure

if __name__ == "__main__":
    measure("tiles", seconds=40.0, folder=Path(__file__).parent / "results")
