"""Run a one-line Python function that a model wrote, without exec, eval or any way out.

Only the syntax, functions and methods named here are understood, and the size of every value and
the number of steps are bounded, so that any text may be given.
"""

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

MAX_SOURCE = 400  # characters
MAX_STEPS = 5_000
MAX_SIZE = 2_000  # items and characters in one value, nested ones included
MAX_INT = 10**15
MAX_EXPONENT = 10

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(abs, all, any, bool, float, int, len, list, max, min),
        *(range, reversed, sorted, str, sum, tuple),
    )
}
_TEXT_METHODS = """
    capitalize count endswith find index isalpha isdigit islower isupper join lower lstrip replace
    rstrip split startswith strip swapcase title upper
"""
_METHODS: dict[type, frozenset[str]] = {
    str: frozenset(_TEXT_METHODS.split()),
    list: frozenset(("count", "index")),
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, group: item in group,
    ast.NotIn: lambda item, group: item not in group,
}
_CONSTANTS = (int, float, str, type(None))
_FAILURES = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError),
    *(RecursionError, SyntaxError, TypeError, ValueError),
)


class Refused(ValueError):
    """The text is not a function this interpreter runs, or running it failed."""


class SafeFunction:
    """A checked one-line function of one argument: `def f(x): return ...`."""

    def __init__(self, source: str) -> None:
        """Read `source`; raises Refused when it is anything but such a function."""
        if len(source) > MAX_SOURCE:
            raise Refused("the text is too long")
        try:
            module = ast.parse(source)
        except _FAILURES as error:
            raise Refused(str(error)) from error
        self._parameter, self._body = _signature(module)

    def __call__(self, argument: Any) -> Any:
        """The function's value for `argument`; raises Refused when it fails or grows too large."""
        try:
            return _Evaluation().value(self._body, {self._parameter: argument})
        except _FAILURES as error:
            raise Refused(str(error)) from error


def _signature(module: ast.Module) -> tuple[str, ast.expr]:
    match module.body:
        case [
            ast.FunctionDef(
                name="f",
                args=ast.arguments(
                    posonlyargs=[], args=[ast.arg(arg=name)], vararg=None, kwonlyargs=[],
                    kwarg=None, defaults=[],
                ),
                body=[ast.Return(value=ast.expr() as body)],
                decorator_list=[],
            )
        ]:  # fmt: skip
            return name, body
    raise Refused("not a one-line function f of one argument")


def _size(value: Any) -> int:
    """How much a value holds; more than MAX_SIZE for a number that is too large."""
    if isinstance(value, int):
        return 1 if abs(value) <= MAX_INT else MAX_SIZE + 1
    if isinstance(value, list | tuple):
        return 1 + sum(map(_size, value))
    return len(value) if isinstance(value, str | range) else 1


def _bounded(value: T) -> T:
    if _size(value) > MAX_SIZE:
        raise Refused("a value is too large")
    return value


class _Evaluation:
    """One run: walks the expression and counts its steps."""

    def __init__(self) -> None:
        self._steps = 0

    def value(self, node: ast.AST, names: dict[str, Any]) -> Any:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Refused("too many steps")
        visit = getattr(self, f"_{type(node).__name__.lower()}", None)
        if visit is None:
            raise Refused(f"{type(node).__name__} is not understood")
        return visit(node, names)

    def _constant(self, node: ast.Constant, names: dict[str, Any]) -> Any:
        if not isinstance(node.value, _CONSTANTS):
            raise Refused("this constant is not understood")
        return _bounded(node.value)

    def _name(self, node: ast.Name, names: dict[str, Any]) -> Any:
        return names[node.id]

    def _list(self, node: ast.List, names: dict[str, Any]) -> list[Any]:
        return _bounded([self.value(item, names) for item in node.elts])

    def _tuple(self, node: ast.Tuple, names: dict[str, Any]) -> tuple[Any, ...]:
        return _bounded(tuple(self.value(item, names) for item in node.elts))

    def _unaryop(self, node: ast.UnaryOp, names: dict[str, Any]) -> Any:
        return _OPERATORS[type(node.op)](self.value(node.operand, names))

    def _binop(self, node: ast.BinOp, names: dict[str, Any]) -> Any:
        left, right = self.value(node.left, names), self.value(node.right, names)
        # These three could build something huge before its size can be looked at.
        if isinstance(node.op, ast.Mult):
            for sequence, count in ((left, right), (right, left)):
                if isinstance(sequence, str | list | tuple) and isinstance(count, int):
                    _bounded(range(max(count, 0) * _size(sequence)))
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            raise Refused("text formatting is not understood")
        if isinstance(node.op, ast.Pow) and not 0 <= right <= MAX_EXPONENT:
            raise Refused("the exponent is out of range")
        return _bounded(_OPERATORS[type(node.op)](left, right))

    def _boolop(self, node: ast.BoolOp, names: dict[str, Any]) -> Any:
        stops_at = isinstance(node.op, ast.Or)
        for operand in node.values:
            result = self.value(operand, names)
            if bool(result) == stops_at:
                break
        return result

    def _compare(self, node: ast.Compare, names: dict[str, Any]) -> bool:
        left = self.value(node.left, names)
        for kind, operand in zip(node.ops, node.comparators, strict=True):
            right = self.value(operand, names)
            if not _OPERATORS[type(kind)](left, right):
                return False
            left = right
        return True

    def _ifexp(self, node: ast.IfExp, names: dict[str, Any]) -> Any:
        return self.value(node.body if self.value(node.test, names) else node.orelse, names)

    def _subscript(self, node: ast.Subscript, names: dict[str, Any]) -> Any:
        return self.value(node.value, names)[self.value(node.slice, names)]

    def _slice(self, node: ast.Slice, names: dict[str, Any]) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(part and self.value(part, names) for part in parts))

    def _listcomp(self, node: ast.ListComp, names: dict[str, Any]) -> list[Any]:
        return _bounded(list(self._items(node.elt, node.generators, names)))

    def _generatorexp(self, node: ast.GeneratorExp, names: dict[str, Any]) -> Any:
        # An iterator, not the list: len() of it has to fail as it does in Python.
        return iter(_bounded(list(self._items(node.elt, node.generators, names))))

    def _items(
        self, item: ast.expr, loops: list[ast.comprehension], names: dict[str, Any]
    ) -> Iterable[Any]:
        if not loops:
            yield self.value(item, names)
            return
        loop, *inner = loops
        if not isinstance(loop.target, ast.Name) or loop.is_async:
            raise Refused("this loop is not understood")
        for element in self.value(loop.iter, names):
            scope = names | {loop.target.id: element}
            if all(self.value(test, scope) for test in loop.ifs):
                yield from self._items(item, inner, scope)

    def _call(self, node: ast.Call, names: dict[str, Any]) -> Any:
        function = self._callee(node.func, names)
        options = {str(option.arg): self.value(option.value, names) for option in node.keywords}
        if options and (function is not sorted or set(options) != {"reverse"}):
            raise Refused("this option is not understood")
        return _bounded(function(*(self.value(item, names) for item in node.args), **options))

    def _callee(self, node: ast.expr, names: dict[str, Any]) -> Callable[..., Any]:
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value, names)
            if node.attr in _METHODS.get(type(owner), ()):
                method: Callable[..., Any] = getattr(owner, node.attr)
                return method
        elif isinstance(node, ast.Name) and node.id in _FUNCTIONS and node.id not in names:
            return _FUNCTIONS[node.id]
        raise Refused("this call is not understood")
