"""A causal window against PyTorch with the same mask: about a minute.

Run ``python benchmarks/cpu_window.py``; it writes results/cpu_window.json beside itself.
"""

from pathlib import Path

from attncourse.measure.bench import measure

if __name__ == "__main__":
    folder = Path(__file__).parent / "results"
    measure("window", lengths=(1024, 2048, 4096, 8192), seconds=3.0, folder=folder)
