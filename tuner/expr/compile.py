"""From text to a checked expression: parsing by `ast` against a whitelist, names, types, divisions."""

from __future__ import annotations

import ast
import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from tuner.expr import nodes
from tuner.expr.domain import DIVISIONS, Domain
from tuner.expr.nodes import Evaluate, Node
from tuner.model import UserError

MAX_DEPTH = 60

_KINDS = {"int": "a whole number", "float": "a float", "bool": "a boolean", "str": "a string"}
_NUMBERS = ("int", "float")
_SYMBOLS: Mapping[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.And: "and", ast.Or: "or",
}  # fmt: skip


@dataclass(frozen=True)
class Expression:
    """A checked expression. `scalar` takes plain values by name; `columns` takes arrays, or plain values, by name.

    Both forms give equal values for equal inputs, provided each input lies in the domain it was compiled for; the
    column form broadcasts, and holds whole numbers beyond int64 as objects. Names whose value cannot matter are left
    out of `names`.
    """

    text: str
    where: str
    domain: Domain
    names: frozenset[str]
    scalar: Evaluate
    columns: Evaluate


def compile_expression(text: str, names: Mapping[str, Domain], where: str) -> Expression:
    """Parse and check `text` over `names`; a UserError that starts with `where` (`file:line`) says what is unsound."""
    compiler = _Compiler(names, where, text.strip())
    node = compiler.visit(compiler.parsed(), 0)
    return Expression(text, where, node.domain, node.names, node.scalar, node.columns)


@dataclass(frozen=True)
class _Compiler:
    """One pass over the tree; `_METHODS` says which method knows which node."""

    names: Mapping[str, Domain]
    where: str
    text: str

    def refuse(self, what: str) -> NoReturn:
        raise UserError(f"{self.where}: in `{self.text}`: {what}.")

    def refuse_syntax(self, tree: ast.expr) -> NoReturn:
        self.refuse(f"`{ast.unparse(tree)}` is not part of the expression language")

    def parsed(self) -> ast.expr:
        try:
            return ast.parse(self.text.replace("\n", " "), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.refuse("it is not a Python expression")

    def visit(self, tree: ast.expr, depth: int) -> Node:
        if depth > MAX_DEPTH:
            self.refuse("it is nested too deeply; split it by means of [derived] names")
        method = _METHODS.get(type(tree))
        if method is None:
            self.refuse_syntax(tree)
        node = method(self, tree, depth + 1)
        if node.domain.too_large:
            self.refuse(f"`{ast.unparse(tree)}` may grow too large")
        return node

    def visit_as(self, tree: ast.expr, depth: int, *kinds: str) -> Node:
        node = self.visit(tree, depth)
        if node.domain.kind not in kinds:
            found, wanted = _KINDS[node.domain.kind], _KINDS[kinds[0]]
            self.refuse(f"`{ast.unparse(tree)}` is {found} where {wanted} is needed")
        return node

    def constant(self, tree: ast.Constant, depth: int) -> Node:
        value = tree.value
        if not isinstance(value, bool | int | float | str) or (isinstance(value, float) and not math.isfinite(value)):
            self.refuse_syntax(tree)
        return nodes.constant(value)

    def name(self, tree: ast.Name | ast.Attribute, depth: int) -> Node:
        if isinstance(tree, ast.Attribute) and not isinstance(tree.value, ast.Name):
            self.refuse_syntax(tree)
        name = ast.unparse(tree)
        if name not in self.names:
            near = difflib.get_close_matches(name, self.names, 1)
            self.refuse(f"unknown name `{name}`" + (f" (did you mean `{near[0]}`?)" if near else ""))
        return nodes.name(name, self.names[name])

    def unary(self, tree: ast.UnaryOp, depth: int) -> Node:
        if isinstance(tree.op, ast.Not):
            return nodes.negation(self.visit_as(tree.operand, depth, "bool"))
        if not isinstance(tree.op, ast.USub):
            self.refuse_syntax(tree)
        return nodes.arithmetic("-", nodes.constant(0), self.visit_as(tree.operand, depth, *_NUMBERS))

    def binary(self, tree: ast.BinOp, depth: int) -> Node:
        symbol = _SYMBOLS.get(type(tree.op))
        if symbol is None:
            self.refuse_syntax(tree)
        left, right = (self.visit_as(side, depth, *_NUMBERS) for side in (tree.left, tree.right))
        return self.arithmetic(symbol, left, right, tree, tree.right)

    def call(self, tree: ast.Call, depth: int) -> Node:
        name = tree.func.id if isinstance(tree.func, ast.Name) else ""
        if name not in ("min", "max", "ceil_div") or tree.keywords:
            self.refuse(f"`{ast.unparse(tree)}` is not part of the expression language; min, max and ceil_div are")
        if len(tree.args) < 2 or (name == "ceil_div" and len(tree.args) > 2):
            self.refuse(f"`{name}` takes {'two' if name == 'ceil_div' else 'two or more'} arguments")
        result, *others = (self.visit_as(argument, depth, *_NUMBERS) for argument in tree.args)
        for other in others:
            result = self.arithmetic(name, result, other, tree, tree.args[-1])
        return result

    def arithmetic(self, symbol: str, left: Node, right: Node, tree: ast.expr, divisor: ast.expr) -> Node:
        if symbol in ("//", "%", "ceil_div") and "float" in (left.domain.kind, right.domain.kind):
            self.refuse(f"`{symbol}` takes whole numbers, and `{ast.unparse(tree)}` has a float")
        if symbol in DIVISIONS and right.domain.may_be_zero:
            text = ast.unparse(divisor)
            self.refuse(f"`{text}` may be 0, and something is divided by it; write max(1, {text})")
        return nodes.arithmetic(symbol, left, right)

    def compare(self, tree: ast.Compare, depth: int) -> Node:
        parts = []
        left = tree.left
        for symbol, right in zip(tree.ops, tree.comparators, strict=True):
            if isinstance(symbol, ast.In | ast.NotIn):
                found = self.member(left, right, depth)
                parts.append(nodes.negation(found) if isinstance(symbol, ast.NotIn) else found)
            elif type(symbol) in _SYMBOLS:
                parts.append(self.comparison(_SYMBOLS[type(symbol)], left, right, depth))
            else:
                self.refuse_syntax(tree)
            left = right
        return nodes.junction("and", parts)

    def member(self, left: ast.expr, right: ast.expr, depth: int) -> Node:
        if not isinstance(right, ast.Tuple) or not right.elts or not all(map(_is_literal, right.elts)):
            self.refuse("`in` takes a tuple of literals on its right, such as (1, 2, 4)")
        return nodes.junction("or", [self.comparison("==", left, item, depth) for item in right.elts])

    def comparison(self, symbol: str, left: ast.expr, right: ast.expr, depth: int) -> Node:
        a, b = self.visit(left, depth), self.visit(right, depth)
        kinds = {a.domain.kind, b.domain.kind}
        if not kinds <= set(_NUMBERS) and (len(kinds) > 1 or symbol not in ("==", "!=")):
            sides = f"{_KINDS[a.domain.kind]} `{ast.unparse(left)}` with {_KINDS[b.domain.kind]} `{ast.unparse(right)}`"
            self.refuse(f"`{symbol}` cannot compare {sides}")
        return nodes.comparison(symbol, a, b)

    def junction(self, tree: ast.BoolOp, depth: int) -> Node:
        return nodes.junction(_SYMBOLS[type(tree.op)], [self.visit_as(v, depth, "bool") for v in tree.values])

    def conditional(self, tree: ast.IfExp, depth: int) -> Node:
        test = self.visit_as(tree.test, depth, "bool")
        yes, no = self.visit(tree.body, depth), self.visit(tree.orelse, depth)
        kinds = {yes.domain.kind, no.domain.kind}
        if len(kinds) > 1 and not kinds <= set(_NUMBERS):
            self.refuse(f"the two results of `{ast.unparse(tree)}` are of different types")
        return nodes.conditional(test, yes, no)


_METHODS: Mapping[type[ast.expr], Callable[..., Node]] = {
    ast.Constant: _Compiler.constant,
    ast.Name: _Compiler.name,
    ast.Attribute: _Compiler.name,
    ast.UnaryOp: _Compiler.unary,
    ast.BinOp: _Compiler.binary,
    ast.Call: _Compiler.call,
    ast.Compare: _Compiler.compare,
    ast.BoolOp: _Compiler.junction,
    ast.IfExp: _Compiler.conditional,
}


def _is_literal(tree: ast.expr) -> bool:
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        tree = tree.operand
    return isinstance(tree, ast.Constant)
