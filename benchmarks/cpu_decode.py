"""One decoding step against PyTorch's grouped heads: about half a minute.

Run ``python benchmarks/cpu_decode.py``; it writes results/cpu_decode.json beside itself.
"""

from pathlib import Path

from attncourse.measure.bench import measure

if __name__ == "__main__":
    folder = Path(__file__).parent / "results"
    measure("decode", lengths=(512, 2048, 8192, 32768), seconds=3.0, folder=folder)
