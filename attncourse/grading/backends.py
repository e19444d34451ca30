"""The ways to start a worker: bubblewrap, Docker, Podman, another user, or not isolated.

The one idea: a sandbox is a list of what may be seen. Python, its packages and the worker's own
files are mounted read-only; everything else of this machine does not exist inside.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BACKENDS", "HOW_TO_GET", "Isolation", "SandboxError", "choose", "command", "mounts"]

BACKENDS = ("bwrap", "docker", "podman", "user", "none")
AUTOMATIC = BACKENDS[:3]  # what `auto` may pick
IMAGE = "attncourse-grading"
NOBODY = 65534
HERE = Path(__file__).resolve().parent
INSIDE = HERE / "inside"  # all that runs in a sandbox
STAND_INS = {"package.py": "__init__.py", "grading.py": "grading/__init__.py"}
NEEDED_PACKAGES = ("numpy", "IPython", "traitlets", "torch")
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "USER": "learner",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp",
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB")},
}
START = (
    "import sys; sys.path[:0] = sys.argv[1:]\n"
    "from attncourse.grading.inside.worker import main\n"
    "main()"
)
HOW_TO_GET = (
    "Install bubblewrap (Debian, Ubuntu, WSL2: apt install bubblewrap; Fedora: dnf install "
    "bubblewrap), or Docker or Podman with an image that has Python, numpy and IPython "
    "(--image NAME). `attncourse grade doctor` tries them. Ubuntu 24.04 and newer also need an "
    "AppArmor profile for bwrap: see the instructor guide."
)


class SandboxError(RuntimeError):
    """The sandbox could not be built or started: our fault, never the learner's."""


@dataclass(frozen=True)
class Isolation:
    """How a worker is shut in.

    Parameters
    ----------
    backend : str
        One of `BACKENDS`.
    memory_bytes, tmp_bytes : int
        Address space of the worker, and size of its `/tmp`.
    cpu_seconds : int
        Processor time over the worker's whole life.
    image : str
        Image of a Docker or Podman worker.
    real_package : bool
        Show the real `attncourse` instead of the stand-in.
    """

    backend: str = "bwrap"
    memory_bytes: int = 2 << 30
    tmp_bytes: int = 64 << 20
    cpu_seconds: int = 120
    image: str = IMAGE
    real_package: bool = False

    @property
    def file_bytes(self) -> int:
        """Return how large a file may get; a `/tmp` that others share stays nearly empty."""
        return 1 << 20 if self.backend == "user" else 16 << 20


def choose(wanted: str, trusted: bool = False, works: Sequence[str] | None = None) -> str:
    """Pick a backend; never fall back to none.

    Parameters
    ----------
    wanted : str
        `auto`, or one of `BACKENDS`.
    trusted : bool
        What `--i-trust-these-submissions` says.
    works : sequence of str, optional
        Backends that may be picked by `auto`; those whose program is installed by default.

    Returns
    -------
    str

    Raises
    ------
    SandboxError
        If `auto` finds none, if the program is missing, or if `none` comes without the consent.
    """
    if wanted == "none" and not trusted:
        raise SandboxError(
            "--backend none runs every submission with your rights over your files; "
            "if you really trust them all, add --i-trust-these-submissions"
        )
    if wanted == "user" and (not hasattr(os, "getuid") or os.getuid() != 0):
        raise SandboxError("--backend user runs learner code as nobody, and only root may do that")
    if wanted in ("none", "user"):
        return wanted
    found = [name for name in AUTOMATIC if shutil.which(name)] if works is None else list(works)
    if wanted == "auto" and not found:
        raise SandboxError(f"no sandbox found, and nothing is graded without one. {HOW_TO_GET}")
    if wanted not in ("auto", *found):
        raise SandboxError(f"{wanted} is not installed. {HOW_TO_GET}")
    return found[0] if wanted == "auto" else wanted


def _package_folders() -> list[str]:
    """Return the folders in which the packages that a worker needs are installed."""
    folders = []
    for name in NEEDED_PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            folders.append(str(Path(next(iter(spec.submodule_search_locations))).resolve().parent))
    return list(dict.fromkeys(folders))


def _python() -> str:
    """Return the interpreter itself, not a virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def mounts() -> list[str]:
    """Return the paths of this machine that are seen inside, read-only, under their own names."""
    wanted = ["/usr/lib", "/usr/lib64", "/usr/lib32", "/etc/ld.so.cache", _python()]
    wanted += [str(Path(sys.base_prefix).resolve() / "lib"), *_package_folders()]
    found = [path for path in dict.fromkeys(wanted) if os.path.exists(path)]
    covered = [path for path in found if os.path.isdir(path)]
    return [
        p for p in found if not any(p != top and Path(p).is_relative_to(top) for top in covered)
    ]


def masked() -> list[str]:
    """Return folders below a mount that are shown empty: the course's own package has answers."""
    folders = [*map(Path, _package_folders())]
    # The interpreter's own packages are mounted too, whether a worker imports from them or not.
    for top in ("/usr/lib", str(Path(sys.base_prefix).resolve() / "lib")):
        folders += [*Path(top).glob("python3*/site-packages")]
        folders += [*Path(top).glob("python3*/dist-packages")]
    places = dict.fromkeys(str(folder / "attncourse") for folder in folders)
    return [place for place in places if os.path.isdir(place)]


def _open_to_all(place: Path) -> bool:
    """Tell whether any user may read a path."""
    above = all(folder.stat().st_mode & 0o001 for folder in place.parents)
    return above and bool(place.stat().st_mode & 0o005)


def refuse_exposure(secrets: Iterable[str | os.PathLike[str]], backend: str = "bwrap") -> None:
    """Stop if learner code could read a path that must stay hidden.

    Parameters
    ----------
    secrets : iterable of path
        Exercise, submissions, roster, output folder.
    backend : str
        For `user` the rights of the files decide, for all others the mounts.

    Raises
    ------
    SandboxError
        Naming the path and the mount.
    """
    for secret in secrets:
        place = Path(secret).resolve()
        if backend == "user" and place.exists() and _open_to_all(place):
            raise SandboxError(
                f"every user can read {place}, and so could learner code: chmod 700 it"
            )
        if any(place.is_relative_to(folder) for folder in masked()):
            continue
        for mount in mounts() if backend != "none" else ():
            if place.is_relative_to(mount):
                raise SandboxError(
                    f"{place} would be visible inside the sandbox, as part of {mount}; move it"
                )


def _own_files(isolation: Isolation) -> list[tuple[str, str]]:
    """Return (path here, path inside) of the worker's own files."""
    if isolation.real_package:
        return [(str(HERE.parent), "/worker/attncourse")]
    files = {INSIDE / "stand_ins" / ours: theirs for ours, theirs in STAND_INS.items()}
    files |= {file: f"grading/inside/{file.name}" for file in sorted(INSIDE.glob("*.py"))}
    return [(str(ours), f"/worker/attncourse/{theirs}") for ours, theirs in files.items()]


def _bubblewrap(isolation: Isolation) -> list[str]:
    """Return the bubblewrap command."""
    words = "bwrap --unshare-all --unshare-user --die-with-parent --new-session".split()
    words += "--hostname sandbox --cap-drop ALL --uid 65534 --gid 65534 --clearenv".split()
    for name, value in ENVIRONMENT.items():
        words += ["--setenv", name, value]
    # First of all: what is mounted later may lie below it, a virtual environment for example.
    words += f"--size {isolation.tmp_bytes} --tmpfs /tmp".split()
    for path in mounts():
        words += ["--ro-bind", path, path]
    for folder in () if isolation.real_package else masked():
        words += ["--tmpfs", folder, "--remount-ro", folder]
    for link in ("/lib", "/lib64", "/lib32"):
        if os.path.islink(link):
            words += ["--symlink", os.readlink(link), link]
        elif os.path.isdir(link):
            words += ["--ro-bind", link, link]
    for ours, inside in _own_files(isolation):
        words += ["--ro-bind", ours, inside]
    for device in ("/dev/null", "/dev/zero", "/dev/urandom"):
        words += ["--dev-bind", device, device]
    words += "--remount-ro / --chdir /tmp".split()
    return [*words, _python(), "-I", "-S", "-B", "-c", START, "/worker", *_package_folders()]


def _container(isolation: Isolation, name: str) -> list[str]:
    """Return the Docker or Podman command."""
    words = [isolation.backend, *f"run --rm -i --name {name} --network none --read-only".split()]
    words += "--cap-drop ALL --security-opt no-new-privileges --user 65534:65534".split()
    words += "--pids-limit 8 --ipc none --hostname sandbox --workdir /tmp".split()
    words += "--ulimit nofile=256:256 --ulimit nproc=64:64 --ulimit core=0:0".split()
    memory = str(isolation.memory_bytes + isolation.tmp_bytes)
    words += ["--memory", memory, "--memory-swap", memory, "--cpus", "1"]
    words += ["--tmpfs", f"/tmp:rw,noexec,nosuid,nodev,mode=1777,size={isolation.tmp_bytes}"]
    for key, value in ENVIRONMENT.items():
        words += ["--env", f"{key}={value}"]
    for ours, inside in _own_files(isolation):
        words += ["--volume", f"{ours}:{inside}:ro"]
    return [*words, isolation.image, "python3", "-I", "-B", "-c", START, "/worker"]


def _plain(folder: str) -> list[str]:
    """Return the command without any isolation; `folder` holds links to the worker's own files."""
    return [_python(), "-I", "-S", "-B", "-c", START, folder, *_package_folders()]


def command(isolation: Isolation, name: str = "attncourse", folder: str = "") -> list[str]:
    """Return the command that starts a worker.

    Parameters
    ----------
    isolation : Isolation
        How it is shut in.
    name : str
        Name of a container, by which it is killed.
    folder : str
        For the backends without mounts: where its files lie, see `lay_out`.

    Returns
    -------
    list of str
    """
    if isolation.backend == "bwrap":
        return _bubblewrap(isolation)
    if isolation.backend in ("docker", "podman"):
        return _container(isolation, name)
    return _plain(folder)


def lay_out(folder: Path, isolation: Isolation) -> None:
    """Copy the worker's own files into a folder, for the backends that have no mounts."""
    for ours, inside in _own_files(isolation):
        place = folder / inside.removeprefix("/worker/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ours, place) if os.path.isdir(ours) else shutil.copy(ours, place)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
