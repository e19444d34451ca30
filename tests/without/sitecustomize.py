"""Put this folder on PYTHONPATH, and Python starts as on a system that lacks something.

``ATTNCOURSE_WITHOUT=triton,resource,/proc`` names modules that cannot be found and folders that
do not exist: what macOS (Triton, /proc) and Windows (resource too) do not have. Only psutil, which
there asks the system in another way, still uses them.
"""

import builtins
import contextlib
import functools
import importlib.machinery
import io
import os
import sys

MISSING = os.environ.get("ATTNCOURSE_WITHOUT", "").split(",")
FOLDERS = tuple(name for name in MISSING if name.startswith("/"))
find_spec = importlib.machinery.PathFinder.find_spec


@classmethod
def find_what_is_left(cls, name, path=None, target=None):
    return None if name.partition(".")[0] in MISSING else find_spec(name, path, target)


def without_folders(function):
    @functools.wraps(function)
    def careful(path=".", *rest, **named):
        asking = sys._getframe(1).f_globals.get("__name__", "")
        if isinstance(path, (str, os.PathLike)) and not asking.startswith("psutil"):
            if os.fspath(path).startswith(FOLDERS):
                raise FileNotFoundError(2, "hidden", os.fspath(path))
        return function(path, *rest, **named)

    return careful


with contextlib.suppress(ImportError):
    import psutil  # noqa: F401
for name in MISSING:
    sys.modules.pop(name, None)
importlib.machinery.PathFinder.find_spec = find_what_is_left
if FOLDERS:
    builtins.open = io.open = without_folders(io.open)
    os.stat, os.listdir, os.scandir = map(without_folders, (os.stat, os.listdir, os.scandir))
