"""Key the execution cache on what the outputs depend on, not on the cells alone.

jupyter-cache finds a notebook by its code cells. Its folder is therefore named after a hash of
everything else that may change an output: the package's files, the installed versions, and what
this machine lacks (see `course_needs`).
"""

import hashlib
import sys
from importlib.metadata import distributions
from pathlib import Path

from course_needs import missing


def hash_files(paths, root):
    """Hash names and contents of files, in a fixed order."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def installed_versions():
    """List ``name==version`` of Python and of every installed distribution but ours."""
    found = {(d.metadata["Name"] or "").lower(): d.version for d in distributions()}
    found.pop("attncourse", None)
    found["python"] = sys.version.split()[0]
    return sorted(f"{name}=={version}" for name, version in found.items())


def package_files(root):
    """List the files of the package that a chapter can import or read."""
    files = Path(root, "attncourse").rglob("*")
    return [f for f in files if f.is_file() and "__pycache__" not in f.parts]


def execution_key(root):
    """Hash the package, the versions and what is missing: 16 hexadecimal digits."""
    text = hash_files(package_files(root), Path(root))
    text += "\n".join([*installed_versions(), *(f"no {name}" for name in missing())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cache_folder(root):
    """Return the folder of the execution cache that is valid now."""
    return Path(root, "_build", "executed", execution_key(root))


def configure(app, config):
    """Point myst-nb at the valid cache; a new key makes Sphinx read every page again."""
    folder = cache_folder(app.srcdir)
    config.nb_execution_cache_path = str(folder)
    config.course_execution_key = folder.name


def setup(app):
    """Register with Sphinx."""
    app.add_config_value("course_execution_key", "", "env")
    app.connect("config-inited", configure, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
