"""What is known, for other stores and other programs: JSON lines, the T4 schema, a C header, seeds, CLBlast's files."""

from __future__ import annotations

from tuner.interchange.header import write_header
from tuner.interchange.lines import write_lines
from tuner.interchange.load import Imported, load
from tuner.interchange.reading import File
from tuner.interchange.seeds import write_seeds
from tuner.interchange.t4 import write_t4

__all__ = ["File", "Imported", "load", "write_header", "write_lines", "write_seeds", "write_t4"]
