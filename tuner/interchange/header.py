"""Champions for a program that embeds its kernels: a C header that says what to build and launch, and the .cl files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuner.interchange.lines import Wanted
from tuner.model import Champion, MachineError
from tuner.store import Store
from tuner.store.keys import text_hash

HEADER = "gemm_tuner_kernels.h"

_TYPES = """\
typedef struct {
    const char *kernel;
    unsigned int dimensions;
    size_t global_size[3];
    size_t local_size[3];
    unsigned int scratch_count; /* buffers passed after the common arguments, in this order */
    unsigned int scratch[4];    /* which of the champion's scratch buffers */
} gemm_tuner_step;

typedef struct {
    const char *name;
    size_t bytes;
    int zeroed; /* all zeros before the first product; every product leaves it so */
} gemm_tuner_scratch;

/* C = alpha * op(A) * op(B) + beta * C, row-major: C is m x n, the sum runs over k. */
typedef struct {
    /* the device */
    const char *vendor, *device, *kind;
    unsigned int compute_units, memory_gib;
    const char *platform, *driver, *c_version, *device_string;
    /* the problem */
    unsigned int m, n, k, batch;
    const char *dtype;
    int trans_a, trans_b;
    const char *math;
    unsigned int align; /* bytes that divide every base, leading dimension and batch stride */
    /* what was measured; 0 if it was not */
    double time_ms;
    double noise; /* half-width of the 95 % interval of time_ms, as a fraction */
    /* what to build and launch, in order, on an in-order queue */
    const char *configuration;
    const char *source_file;
    const char *source_hash;
    const char *build_options;
    unsigned int step_count;
    const gemm_tuner_step *steps;
    unsigned int scratch_count;
    const gemm_tuner_scratch *scratch;
} gemm_tuner_champion;
"""

_CONVENTION = """\
/* Every kernel has these arguments, then its step's scratch buffers; REAL is the type of the elements.
 * Offsets, leading dimensions and batch strides are in elements.
 *
 *   (const int m, const int n, const int k,
 *    const REAL alpha, __global const REAL *a, const long a_offset, const int lda, const long a_stride,
 *                      __global const REAL *b, const long b_offset, const int ldb, const long b_stride,
 *    const REAL beta,  __global REAL *c,       const long c_offset, const int ldc, const long c_stride, ...)
 *
 * A champion is certified for the software named beside it. On any other, check its results before you rely on it.
 */
"""

MOST_SCRATCH = 4
"""Scratch buffers of one launch that the header has room for; no built-in family needs more than two."""


def write_header(store: Store, folder: Path, wanted: Wanted) -> tuple[int, int]:
    """Write the certified champions of the devices `wanted` into a folder.

    Returns how many were written and how many were left out for want of a certificate. Raises MachineError.
    """
    found = [champion for champion in store.champions() if wanted(champion.silicon, champion.software)]
    champions = [champion for champion in found if champion.certificate is not None]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for champion in champions:
            (folder / file_name(champion)).write_text(champion.rendered.source, "utf-8")
        (folder / HEADER).write_text(header(champions), "ascii")
    except OSError as error:
        raise MachineError(f"{folder} cannot be written: {error.strerror}.") from error
    return len(champions), len(found) - len(champions)


def file_name(champion: Champion) -> str:
    """The file of a champion's source; champions with the same source share it."""
    family = "".join(
        character if character.isascii() and character.isalnum() else "_" for character in champion.config.family
    )
    return f"{family}-{text_hash(champion.rendered.source)[:12]}.cl"


def header(champions: Sequence[Champion]) -> str:
    """The header's text: plain ASCII, C99 and C++."""
    parts = [
        "/* Written by gemm-tuner export; do not edit. */\n",
        "#ifndef GEMM_TUNER_KERNELS_H\n#define GEMM_TUNER_KERNELS_H\n\n#include <stddef.h>\n\n",
        f"{_CONVENTION}\n{_TYPES}\n",
        *(_plan(number, champion) for number, champion in enumerate(champions)),
        f"static const unsigned int gemm_tuner_champion_count = {len(champions)};\n\n",
        # C has no empty arrays.
        f"static const gemm_tuner_champion gemm_tuner_champions[{max(1, len(champions))}] = {{\n",
        *(_entry(number, champion) for number, champion in enumerate(champions)),
        "" if champions else "    { 0 },\n",
        "};\n\n#endif\n",
    ]
    return "".join(parts)


def _plan(number: int, champion: Champion) -> str:
    """The arrays that a champion's entry points to."""
    rendered = champion.rendered
    names = [name for name, _ in rendered.scratch]
    lines = []
    for step in rendered.steps:
        used = [names.index(name) for name in step.scratch]
        if len(used) > MOST_SCRATCH:
            raise MachineError(f"{champion.config.family} passes {len(used)} scratch buffers, too many for the header.")
        sizes = f"{_sizes(step.global_size)}, {_sizes(step.local_size)}"
        scratch = "{ " + ", ".join(map(str, used or [0])) + " }"
        lines.append(f"    {{ {quoted(step.kernel)}, {len(step.global_size)}, {sizes}, {len(used)}, {scratch} }},\n")
    text = f"static const gemm_tuner_step gemm_tuner_steps_{number}[] = {{\n{''.join(lines)}}};\n"
    if rendered.scratch:
        buffers = "".join(
            f"    {{ {quoted(name)}, {size}u, {int(name in rendered.zeroed)} }},\n" for name, size in rendered.scratch
        )
        text += f"static const gemm_tuner_scratch gemm_tuner_scratch_{number}[] = {{\n{buffers}}};\n"
    return f"{text}\n"


def _sizes(sizes: tuple[int, ...]) -> str:
    return "{ " + ", ".join(f"{size}u" for size in (*sizes, 1, 1)[:3]) + " }"


def _entry(number: int, champion: Champion) -> str:
    silicon, software, p, rendered = champion.silicon, champion.software, champion.problem, champion.rendered
    scratch = f"gemm_tuner_scratch_{number}" if rendered.scratch else "NULL"
    rows = (
        f"{quoted(silicon.vendor)}, {quoted(silicon.name)}, {quoted(silicon.kind)}",
        f"{silicon.compute_units}u, {silicon.memory_gib}u",
        ", ".join(map(quoted, (software.platform, software.driver, software.c_version, software.device_string))),
        f"{p.m}u, {p.n}u, {p.k}u, {p.batch}u, {quoted(p.dtype)}",
        f"{int(p.trans_a)}, {int(p.trans_b)}, {quoted(p.math)}, {p.align}u",
        f"{champion.time_ms or 0.0!r}, {champion.noise or 0.0!r}",
        f"{quoted(str(champion.config))}",
        f"{quoted(file_name(champion))}, {quoted(rendered.source_hash)}, {quoted(rendered.build_options)}",
        f"{len(rendered.steps)}u, gemm_tuner_steps_{number}, {len(rendered.scratch)}u, {scratch}",
    )
    return "    {\n" + "".join(f"        {row},\n" for row in rows) + "    },\n"


def quoted(text: str) -> str:
    """A C string literal in plain ASCII: whatever has a meaning in C, a trigraph's question mark too, is escaped."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode()
    )
    return f'"{escaped}"'
