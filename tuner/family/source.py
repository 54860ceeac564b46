"""What makes two rendered kernels the same: their source without comments, their options and their launch plan."""

from __future__ import annotations

import hashlib
import re

from tuner.model import Rendered, Step, canonical_json

# A string or character is matched so that what looks like a comment inside one stays.
_COMMENT = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


def without_comments(source: str) -> str:
    """OpenCL C without comments, blank lines and the spaces around lines: what makes two kernels the same."""
    bare = _COMMENT.sub(lambda match: match[0] if match[0][0] in "\"'" else " ", source)
    return "\n".join(line for line in map(str.strip, bare.split("\n")) if line)


def rendered(
    source: str,
    options: str,
    steps: tuple[Step, ...],
    scratch: tuple[tuple[str, int], ...],
    zeroed: tuple[str, ...] = (),
) -> Rendered:
    """The parts of a `Rendered` with their `source_hash`."""
    plan = [[step.kernel, step.global_size, step.local_size, step.scratch] for step in steps]
    identity = canonical_json([without_comments(source), options, plan, scratch, *([zeroed] if zeroed else [])])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return Rendered(source, options, steps, scratch, digest, zeroed)


def is_sound(stored: Rendered) -> bool:
    """Its `source_hash` is that of its parts; else somebody changed one of them since it was rendered."""
    try:
        again = rendered(stored.source, stored.build_options, stored.steps, stored.scratch, stored.zeroed)
    except UnicodeError:
        return False
    return again.source_hash == stored.source_hash
