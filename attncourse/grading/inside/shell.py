"""An IPython shell that starts no thread, keeps no history and runs no program."""

from __future__ import annotations

from typing import Any

from attncourse.grading.inside.left_out import lenient_imports, run_once

__all__ = ["make_shell"]


def make_shell() -> Any:
    """Make the shell in which a learner's cells run; `left_out` holds the imports that failed."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.colors = "nocolor"
    settings.InteractiveShell.cache_size = 0
    shell: Any = InteractiveShell.instance(config=settings)

    def quiet(*_: Any, **__: Any) -> None:
        """Do nothing: there is nobody to show it to."""

    for name in ("showtraceback", "showsyntaxerror", "showindentationerror", "system"):
        setattr(shell, name, quiet)
    shell.getoutput = lambda *_, **__: []
    shell.enable_matplotlib = shell.enable_gui = quiet
    for name in ("pip", "conda", "mamba", "uv", "matplotlib", "load_ext", "autoreload"):
        shell.register_magic_function(quiet, "line", name)
    shell.register_magic_function(run_once(shell), "line_cell", "timeit")
    shell.left_out = lenient_imports(shell)
    return shell
