"""Which rows and elements of C are looked at when all of them would cost too much: tile corners and edges first."""

from __future__ import annotations

import numpy as np

from tuner.model import Problem
from tuner.verify.layout import Array

TILE_SIDES = (8, 16, 32, 48, 64, 96, 128, 192, 256)
"""Sides of tiles whose edges are looked at."""

MAX_ROWS = 64
"""Sampled rows of C, over all matrices of a batch."""

MAX_COLUMNS = 8
"""Columns looked at in each sampled row where single elements are checked."""


def edge_indices(length: int) -> list[int]:
    """Indices below `length` on either side of tile edges: the ends, then for each tile size the last and first."""
    wanted = [0, length - 1]
    for side in TILE_SIDES:
        last = length // side * side
        wanted += [last - 1, last, side - 1, side]
    return [index for index in dict.fromkeys(wanted) if 0 <= index < length]


def sample_rows(problem: Problem, seed: int) -> Array:
    """(batch index, row) pairs, sorted, distinct, at most MAX_ROWS: tile edges over the batch, then random ones."""
    p = problem
    if p.batch * p.m <= MAX_ROWS:
        every = np.arange(p.batch * p.m)
    else:
        edges = edge_indices(p.m)[: MAX_ROWS // 2]
        matrices = (0, p.batch - 1, p.batch // 2)
        wanted = [matrices[i % len(matrices)] * p.m + row for i, row in enumerate(edges)]
        random = np.random.default_rng([seed, 65]).integers(0, p.batch * p.m, MAX_ROWS - len(wanted))
        every = np.unique(np.concatenate([np.array(wanted), random]))
    return np.stack(np.divmod(every, p.m), axis=1)


def sample_columns(problem: Problem, rows: int, seed: int) -> Array:
    """Columns for each of `rows` sampled rows, (rows, MAX_COLUMNS): edges in turn and random ones, half and half."""
    edges = edge_indices(problem.n)
    half = MAX_COLUMNS // 2
    random = np.random.default_rng([seed, 66]).integers(0, problem.n, (rows, MAX_COLUMNS - half))
    turn = np.arange(rows)[:, None] * half + np.arange(half)
    return np.concatenate([np.array(edges)[turn % len(edges)], random], axis=1)
