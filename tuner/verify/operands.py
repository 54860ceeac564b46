"""Operands that show mistakes: small integers whose products are exact in any order, and uniform floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakValueDictionary

import numpy as np

from tuner.model import DTYPES, Problem, operand_shapes
from tuner.verify.draws import DRAWS, small_integers
from tuner.verify.layout import Array, Layout, Name, element_type, pieces, real_type
from tuner.verify.parallel import each

Values = Literal[
    "integers",
    "floats",
    "uniform",
    "normal",
    "one_signed",
    "wide",
    "tiny",
    "huge",
    "outside",
    "denormals",
    "specials",
]
"""Small integers; uniform numbers, at most MAX_FLOAT_TERMS in a sum; uniform ones; normal ones; all of one sign; a wide
range of exponents; very small ones in A; very large ones; some beyond the range in which methods that split float32 are
exact; products of tiny numbers and large ones; infinities and NaN."""

LARGEST_INTEGER = 127
"""Operands stay within ±this, and so fit int8 on the host."""

PART_OF_C = 8
"""C0 takes at most this part of what C holds exactly, so that a 16-bit C has room for the product."""

MAX_FLOAT_TERMS = 4096
"""Products in each element of C that differ from zero, for floats; further ones are zeros mixed into A.

The error that rounded operands cause grows like sqrt(k), the bound like k·sqrt(k): at k = 65536 operands rounded to
16 bits would pass. Adding a zero rounds nothing, so the bound may count the other products only, and stays sharp."""


LEFT_IN_C = (0.75, 0.0)
"""What a dense C is full of, where it is not read, in runs beside those in which it is NaN; the first is no sum of
integers."""

DRAWN_ELEMENTS = 2**18
"""Elements that are drawn at a time; the values of larger operands depend on it."""


@dataclass(frozen=True)
class Kind:
    """One way of calling the product: its alpha and beta (small integers, exact in every type).

    As in BLAS, C is not read when beta is 0, A and B are not read when alpha is 0: what is not read is all NaN, or one
    number everywhere if `finite`.
    """

    name: str
    alpha: float
    beta: float

    @property
    def finite(self) -> bool:
        """What surrounds operands is: where C is read, save for one kind that shows by NaN that A and B are not."""
        return self.reads_c and self.name != "alpha_zero"

    @property
    def reads_c(self) -> bool:
        """C holds values before the call."""
        return self.beta != 0

    @property
    def reads_ab(self) -> bool:
        """A and B hold values."""
        return self.alpha != 0


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("plain", 1, 0),
        Kind("alpha", 3, 0),
        Kind("add", 1, 1),
        Kind("beta", 1, -2),
        Kind("alpha_beta", -3, 2),
        Kind("alpha_add", 3, 1),
        Kind("beta_zero_nan_c", -1, 0),
        Kind("alpha_zero", 0, 2),
        Kind("alpha_zero_add", 0, 1),
        Kind("both_zero", 0, 0),
        Kind("update", -1, 1),
        Kind("difference", 1, -1),
        Kind("twice", 2, 0),
    )
}
"""Every kind a certificate needs, those that programs call most among them; trials use `plain`."""

DRAWN, FAR = "drawn ", "drawn far "
"""Begin the name of a kind whose alpha and beta come from a seed, for floats only; the second ones are far from 1."""


def kind_named(name: str) -> Kind:
    """One of KINDS, or `drawn SEED`: alpha and beta of any size between 1/8 and 4 and any sign, by their seed.

    `drawn far SEED`: each between 2^5 and 2^10, or the inverse of such. A kernel that is wrong for odd factors alone is
    so found sooner or later. Raises KeyError for an unknown name.
    """
    if not name.startswith(DRAWN):
        return KINDS[name]
    generator = np.random.default_rng(int(name.rpartition(" ")[2]))
    exponents = generator.uniform(-3, 2, 2)
    if name.startswith(FAR):
        exponents = generator.choice([-1.0, 1.0], 2) * generator.uniform(5, 10, 2)
    alpha, beta = generator.choice([-1.0, 1.0], 2) * 2.0**exponents
    return Kind(name, float(alpha), float(beta))


@dataclass(frozen=True, eq=False)
class Shared:
    """What kinds of call have in common, as stored, (batch, rows, columns); nobody writes to it."""

    arrays: tuple[Array, ...]
    known: dict[str, Any] = field(default_factory=dict)
    """What references made of them, by what it is, so that it is made once."""

    def once(self, what: str, make: Callable[[], Any]) -> Any:
        """What `make` returns, made at the first call for `what`."""
        if what not in self.known:
            self.known[what] = make()
        return self.known[what]


@dataclass(frozen=True, eq=False)
class Operands:
    """Values of A, B and C for one call, as stored (batch, rows, columns); None where the kernel must not read."""

    problem: Problem
    values: Values
    kind: Kind
    factors: Shared | None
    """A and B."""
    start: Shared | None
    """C before the call."""
    terms: int
    """Products that differ from zero in an element of C, at most."""
    c_bound: int
    """For integers: no partial sum of any order exceeds this magnitude."""

    @property
    def a(self) -> Array | None:
        """A as stored, or None."""
        return None if self.factors is None else self.factors.arrays[0]

    @property
    def b(self) -> Array | None:
        """B as stored, or None."""
        return None if self.factors is None else self.factors.arrays[1]

    @property
    def c(self) -> Array | None:
        """C before the call as stored, or None."""
        return None if self.start is None else self.start.arrays[0]

    def source(self, name: Name) -> Shared | None:
        """What the values of A, B or C come from, or None: the same object, the same values."""
        return self.start if name == "c" else self.factors

    @property
    def left(self) -> Array:
        """op(A): (batch, m, k)."""
        return _oriented(self.a, self.problem.trans_a)

    @property
    def right(self) -> Array:
        """op(B): (batch, k, n)."""
        return _oriented(self.b, self.problem.trans_b)

    @property
    def bytes(self) -> int:
        """Host memory held."""
        return sum(part.nbytes for part in (self.a, self.b, self.c) if part is not None)

    def flat_a(self, layout: Layout) -> Array:
        """A new buffer for the device: A's values in `layout`, NaN around them (or everywhere if A is not read)."""
        return self._flat("a", layout)

    def flat_b(self, layout: Layout) -> Array:
        """The same for B."""
        return self._flat("b", layout)

    def flat_c(self, layout: Layout) -> Array:
        """The same for C as it is before every run."""
        return self._flat("c", layout)

    def _flat(self, name: Name, layout: Layout) -> Array:
        values = self._of(name, layout)
        flat = layout.filled(name)
        if values is not None:
            layout.slab(name).view(flat)[...] = values
        return flat

    def pieces(self, name: Name, layout: Layout) -> Iterator[tuple[int, Array]]:
        """(first element, elements) of consecutive parts of `flat_a`, `flat_b` or `flat_c`: all but the surroundings.

        Each is to be used before the next one is asked for: they share their memory. So an operand gets to a device
        without a second copy of it on the host.
        """
        values = self._of(name, layout)
        return iter(()) if values is None else pieces(layout, name, values)

    def _of(self, name: Name, layout: Layout) -> Array | None:
        if layout.problem != self.problem:
            raise ValueError(f"the layout is for {layout.problem}, the operands for {self.problem}")
        values: Array | None = getattr(self, name)
        return values


def make_operands(problem: Problem, seed: int, values: Values = "integers", kind: str = "plain") -> Operands:
    """The operands of `seed`: the same arguments give the same values. Raises KeyError for an unknown kind."""
    which = kind_named(kind)
    if values == "integers":
        return _integers(problem, which, seed)
    return _floats(problem, which, seed, values)


def integer_range(problem: Problem, kind: Kind) -> tuple[int, int, int]:
    """(range, terms, bound): A and B within ±range and without zeros, save that rows of A keep `terms` elements.

    |alpha|·terms·range² + |beta|·c_range = bound stays below 2^24 for float32 (2^53 for float64), so every sum is exact
    whatever its order, split or fused; and at most 2^11 for float16 (2^8 for bfloat16), so C itself is, too.
    """
    alpha, beta = abs(int(kind.alpha)), abs(int(kind.beta))
    of_c = beta * c_range(problem)
    room = DTYPES[problem.dtype].exact_below - 1 - of_c
    weight = max(1, alpha)
    largest = min(LARGEST_INTEGER, max(1, math.isqrt(room // (weight * problem.k))))
    terms = min(problem.k, room // (weight * largest**2))
    return largest, terms, weight * terms * largest**2 + of_c


def c_range(problem: Problem) -> int:
    """C0 is within ± this."""
    return min(LARGEST_INTEGER, DTYPES[problem.dtype].exact_below // PART_OF_C)


def _integers(problem: Problem, kind: Kind, seed: int) -> Operands:
    largest, terms, bound = integer_range(problem, kind)

    def draw(operand: int, within: int) -> Array:
        return _drawn(
            problem,
            operand,
            np.dtype(np.int8),
            (seed, operand),
            lambda generator, shape: small_integers(generator, shape, within),
        )

    def factors() -> tuple[Array, ...]:
        a, b = draw(0, largest), draw(1, largest)
        _keep_terms(_oriented(a, problem.trans_a), terms, _generator(seed, 6))
        return a, b

    shared = _shared((problem, seed, "integers", largest, terms), factors) if kind.reads_ab else None
    start = _shared((problem, seed, "integers", "c"), lambda: (draw(2, c_range(problem)),)) if kind.reads_c else None
    return Operands(problem, "integers", kind, shared, start, terms, bound)


def _floats(problem: Problem, kind: Kind, seed: int, values: Values) -> Operands:
    def draw(operand: int) -> Array:
        def some(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
            return DRAWS[values](generator, shape, problem.dtype, operand)

        return _drawn(problem, operand, element_type(problem.dtype), (seed, 3 + operand), some)

    terms = min(problem.k, MAX_FLOAT_TERMS) if values in ("floats", "specials") else problem.k

    def factors() -> tuple[Array, ...]:
        a, b = draw(0), draw(1)
        _keep_terms(_oriented(a, problem.trans_a), terms, _generator(seed, 7))
        if values == "specials":
            _place_specials(_oriented(a, problem.trans_a), _oriented(b, problem.trans_b), seed)
        return a, b

    shared = _shared((problem, seed, values), factors) if kind.reads_ab else None

    def before() -> tuple[Array]:
        c = draw(2)
        if values == "specials":
            _place_specials_in_c(c, seed)
        return (c,)

    start = _shared((problem, seed, values, "c"), before) if kind.reads_c else None
    scaled = Kind(kind.name, _inexact(kind.alpha, problem.dtype), _inexact(kind.beta, problem.dtype))
    return Operands(problem, values, scaled, shared, start, terms, 0)


_in_use: WeakValueDictionary[Hashable, Shared] = WeakValueDictionary()


def _shared(key: Hashable, make: Callable[[], tuple[Array, ...]]) -> Shared:
    """What is shared under `key`, as long as any operands hold it; made anew else."""
    found = _in_use.get(key)
    if found is None:
        found = _in_use[key] = Shared(make())
        for array in found.arrays:
            array.flags.writeable = False
    return found


def _inexact(factor: float, dtype: str) -> float:
    """A factor that no narrower type holds, so that rounding it shows; 0 and 1, which mean something, stay."""
    return factor if factor in (0, 1) else float(real_type(dtype).type(factor * 1.1))


def _keep_terms(left: Array, terms: int, generator: np.random.Generator) -> None:
    """Zero op(A) in place but for at most `terms` elements a row.

    They are stripes that differ from row to row, so that every step of k counts in some row. Where rows are too few for
    that, one element is kept at random of every `period`, so that no part of k and no lane of a vector goes unseen.
    """
    rows, k = left.shape[1:]
    period = -(-k // terms)
    if period == 1:
        return
    if rows < period:
        kept = np.arange(0, k, period) + generator.integers(0, period, (rows, -(-k // period)))
        dropped = np.ones((rows, k), bool)
        np.put_along_axis(dropped, np.minimum(kept, k - 1), False, axis=1)
        left[:, dropped] = 0
        return
    for phase in range(min(period, rows)):
        kept = left[:, phase::period, (-phase) % period :: period].copy()
        left[:, phase::period] = 0
        left[:, phase::period, (-phase) % period :: period] = kept


def _place_specials(left: Array, right: Array, seed: int) -> None:
    """Infinities in op(A)'s first row and in a column of op(B), NaN in the last row; the rest of C stays finite.

    In one row a zero meets the infinity in op(B), which makes NaN: a kernel that leaves out zeros is found out.
    """
    rows, k, columns = left.shape[1], left.shape[2], right.shape[2]
    place = _generator(seed, 8).integers(0, k, 3)
    left[:, 0, place[0]] = np.inf
    if columns > 2:
        right[:, place[1], columns // 2] = -np.inf
        left[:, min(1, rows - 1), place[1]] = 0
    if rows > 1:
        left[:, rows - 1, place[2]] = np.nan


def _place_specials_in_c(c: Array, seed: int) -> None:
    """One in each row, wherever rows are sampled: NaN, an infinity of either sign, or a zero."""
    rows, columns = c.shape[1:]
    first = int(_generator(seed, 9).integers(0, columns))
    for row in range(rows):
        c[:, row, (first + 7 * row) % columns] = (np.nan, np.inf, 0.0, -np.inf)[row % 4]


def _oriented(stored: Array | None, transposed: bool) -> Array:
    if stored is None:
        raise ValueError("this kind of call has no A and B to read")
    return stored.transpose(0, 2, 1) if transposed else stored


def _drawn(
    problem: Problem,
    operand: int,
    stored: np.dtype[Any],
    stream: tuple[int, int],
    draw: Callable[[np.random.Generator, tuple[int, ...]], Array],
) -> Array:
    """An operand, each block of its elements drawn from a stream of its own, by whichever thread is free."""
    shape = (problem.batch, *operand_shapes(problem)[operand])
    every = np.empty(math.prod(shape), stored)

    def fill(first: int) -> None:
        block = every[first : first + DRAWN_ELEMENTS]
        block[...] = draw(_generator(*stream, first // DRAWN_ELEMENTS), block.shape)

    each(fill, range(0, every.size, DRAWN_ELEMENTS))
    return every.reshape(shape)


def _generator(*stream: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(stream))
