"""The small expression language of families: Python's own syntax, checked at load, with a scalar and a column form.

An expression may use arithmetic (`+ - * / // %`), comparison (chained, and `in` a tuple of literals), `and`, `or`,
`not`, `min`, `max`, `ceil_div` and `a if test else b`. Types are inferred: booleans are not numbers here, and a whole
number that meets a float, or `/`, becomes a float first. Each sub-expression carries a `Domain`, a superset of the
values it can take: so a possible division by zero is found before anything runs, and products that need more than 64
bits are known.
"""

from tuner.expr.compile import Expression, compile_expression
from tuner.expr.domain import ANY_BOOL, ANY_STR, INT64_MAX, Domain, Value, ceil_div

__all__ = ["ANY_BOOL", "ANY_STR", "INT64_MAX", "Domain", "Expression", "Value", "ceil_div", "compile_expression"]
