"""What a chapter's cells need beside attention: real source, measured results, a progress bar."""

from attncourse.notebook.results import measured, unpacked
from attncourse.notebook.source import show_source, source_text

__all__ = ["measured", "show_source", "source_text", "unpacked"]
