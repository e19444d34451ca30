"""Compute every public link from the one address in pyproject.toml.

``[tool.attncourse]`` there holds ``repository`` (and, if it is not GitHub Pages' usual place,
``pages``). Nothing in ``_config.yml`` or in a page repeats it.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

BRANCH = "main"


@dataclass(frozen=True)
class Address:
    """Where the repository and its pages live."""

    repository: str
    pages: str

    @property
    def slug(self):
        """``OWNER/NAME``, as GitHub, Colab and Binder spell it."""
        return urlsplit(self.repository).path.strip("/")

    def blob(self, path):
        """Return the address of a file's page in the repository."""
        return f"{self.repository}/blob/{BRANCH}/{path}"

    def edit(self, path):
        """Return the address that edits a file."""
        return f"{self.repository}/edit/{BRANCH}/{path}"

    def colab(self, path):
        """Return the address that opens a notebook in Colab."""
        return f"https://colab.research.google.com/github/{self.slug}/blob/{BRANCH}/{path}"

    def binder(self, path):
        """Return the address that opens a notebook in Binder."""
        return f"https://mybinder.org/v2/gh/{self.slug}/{BRANCH}?urlpath=lab/tree/{path}"


def read_address(root):
    """Read the address from ``root/pyproject.toml``.

    Raises
    ------
    KeyError
        The setting is missing.
    """
    with Path(root, "pyproject.toml").open("rb") as file:
        settings = tomllib.load(file).get("tool", {}).get("attncourse", {})
    if "repository" not in settings:
        raise KeyError(f"{root}/pyproject.toml has no [tool.attncourse] repository = 'https://…'")
    repository = settings["repository"].rstrip("/")
    owner, name = urlsplit(repository).path.strip("/").split("/")
    pages = settings.get("pages", f"https://{owner.lower()}.github.io/{name}/")
    return Address(repository, pages.rstrip("/") + "/")


def configure(app, config):
    """Hand the address to Sphinx and to the theme."""
    address = read_address(app.srcdir)
    config.html_baseurl = address.pages
    config.html_theme_options = {
        **config.html_theme_options,
        "repository_url": address.repository,
        "repository_branch": BRANCH,
    }
    app.course_address = address


def setup(app):
    """Register with Sphinx."""
    app.connect("config-inited", configure, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
