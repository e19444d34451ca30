"""Renew the computed half of requirements.txt.

The upper half is written by hand: what the project asks for itself, pinned exactly. This tool
installs it into a fresh environment, asks pip what came along, and writes those versions below
the line. Packages that only some systems need stay in the upper half, with their markers.

Run it as ``python make.py lock``.
"""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from processes import lossless

ROOT = Path(__file__).resolve().parents[1]
LINE = "# --- computed by `python make.py lock`: what the packages above need themselves ---"
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;#]+)")
# Pip brings these itself, or they belong to one build of torch only.
LEFT_OUT = re.compile(r"^(pip|attncourse|triton|nvidia-.*|cuda-.*)$")


def canonical(name):
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text):
    """Return ``{canonical name: version}`` of every exact pin in a requirements text."""
    found = (PIN.match(line.strip()) for line in text.splitlines())
    return {canonical(pin["name"]): pin["version"] for pin in found if pin}


def by_hand(text):
    """Return the part of a requirements text that people write."""
    return text.split(LINE)[0].rstrip() + "\n"


def computed(frozen, asked):
    """Return the lines for the lower half: frozen, but neither asked for nor left out."""
    lines = {}
    for name, version in pins(frozen).items():
        if name not in asked and not LEFT_OUT.match(name):
            lines[name] = f"{name}=={version.split('+')[0]}"
    return [lines[name] for name in sorted(lines)]


def freeze(requirements):
    """Install a requirements text into a fresh environment and return what pip lists then."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "Scripts" if sys.platform == "win32" else "bin", "python")
        source = Path(folder, "asked.txt")
        source.write_text(requirements, encoding="utf-8")
        pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "-r", str(source)], check=True, stdout=sys.stderr)
        result = subprocess.run([*pip, "freeze", "--all"], check=True, stdout=subprocess.PIPE)
        return result.stdout.decode()


def main():
    """Rewrite requirements.txt."""
    lossless()
    path = ROOT / "requirements.txt"
    upper = by_hand(path.read_text(encoding="utf-8"))
    lower = computed(freeze(upper), pins(upper))
    path.write_text("\n".join([upper, LINE, *lower, ""]), encoding="utf-8")
    print(f"{path.name}: {len(pins(upper))} pins written by hand, {len(lower)} computed")


if __name__ == "__main__":
    main()
