"""Reports: from the store alone to pages that an engineer reads, as HTML, Markdown or JSON."""

from tuner.report.live import running
from tuner.report.rungs import Ladder, read_ladder
from tuner.report.served import Pages, pages
from tuner.report.site import Done, build
from tuner.report.whole import FORMATS, whole, write

__all__ = ["FORMATS", "Done", "Ladder", "Pages", "build", "pages", "read_ladder", "running", "whole", "write"]
