"""What numba has no words for: arrays at an address, and products of whole numbers by the
instruction that processors have for them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import carray, njit, types
from numba.core import config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

COLUMNS = 64  # outputs whose sums stay in registers, for up to four rows
I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
SUMS, BYTES, WORDS = ir.VectorType(I32, 16), ir.VectorType(I8, 32), ir.VectorType(I16, 32)
NOTHING, ZEROS = ir.Constant(SUMS, ir.Undefined), ir.Constant(SUMS, [0] * 16)
DOT = "llvm.x86.avx512.vpdpwssd.512"  # 16 sums += products of 16 pairs of 16 bits
# Two rows of 32 weights are woven into pairs: of each quarter the first four columns, or the last
# four. So 16 sums of the one and of the other come back to the order of their columns.
WOVEN = [
    [8 * quarter + 4 * half + column + row for quarter in range(4) for column in range(4)
     for row in (0, 32)]
    for half in (0, 1)
]  # fmt: skip
UNWOVEN = [
    [4 * quarter + column + half for quarter in pair for half in (0, 16) for column in range(4)]
    for pair in ((0, 1), (2, 3))
]


def available() -> bool:
    """Whether numba may compile for AVX-512 VNNI."""
    chosen = config.CPU_FEATURES
    features: str = get_host_cpu_features() if chosen is None else chosen
    return "+avx512vnni" in features.split(",")


def _type_pointer(context: Any, address: Any, like: Any) -> Any:
    """An address as a pointer to numbers like this one."""
    kind = types.CPointer(like)

    def emit(context: Any, b: Any, signature: Any, given: Any) -> Any:
        return b.inttoptr(given[0], context.get_value_type(kind))

    return kind(address, like), emit


def _array_at(address: int, shape: Any, like: Any) -> Any:
    """The array of a shape that begins at an address, of numbers like this one."""
    return carray(pointer(address, like), shape)


def _type_dots(
    context: Any, x: Any, row: Any, rows: Any, w: Any, at: Any, width: Any, inner: Any, sums: Any
) -> Any:
    """sums [4, COLUMNS] int32 = rows of x [n, inner] int16 times columns of w [inner, width] int8

    row    the first of them
    rows   how many, 1 to 4: a number that is written there
    at     where the first column begins in w, which is flat
    inner  an even number
    """
    signature = types.void(x, types.intp, rows, w, types.intp, types.intp, types.intp, sums)

    def emit(context: Any, b: Any, signature: Any, given: Any) -> Any:
        arrays = [_address(context, b, signature, given, place) for place in (0, 3, 7)]
        _Dots(b, rows.literal_value, arrays, [given[place] for place in (1, 4, 5, 6)])
        return context.get_dummy_value()

    return signature, emit


def _address(context: Any, b: Any, signature: Any, given: Any, place: int) -> Any:
    """Where the numbers of an array among the arguments begin."""
    array = context.make_array(signature.args[place])(context, b, given[place])
    return b.bitcast(array.data, I8.as_pointer())


class _Dots:
    """The code of `dots`: one loop over pairs of inputs, 64 weights of each, which are read and
    woven once; then four instructions a row."""

    def __init__(self, b: Any, rows: int, arrays: list[Any], numbers: list[Any]) -> None:
        (x, w, sums), (row, at, width, inner) = arrays, numbers
        self.b = b
        starts = [b.mul(b.mul(b.add(row, I64(each)), inner), I64(2)) for each in range(rows)]
        w = b.gep(w, [at])
        before, loop, after = b.block, b.append_basic_block(), b.append_basic_block()
        b.branch(loop)
        b.position_at_end(loop)
        k, old = b.phi(I64), [[b.phi(SUMS) for _ in range(4)] for _ in range(rows)]
        pairs = self.woven(w, k, width)
        new = [self.added(x, b.add(start, b.mul(k, I64(2))), of, pairs)
               for start, of in zip(starts, old, strict=True)]  # fmt: skip
        following = b.add(k, I64(2))
        turns = [(k, I64(0), following)]
        turns += [(old[r][c], ZEROS, new[r][c]) for r in range(rows) for c in range(4)]
        for phi, first, then in turns:
            phi.add_incoming(first, before)
            phi.add_incoming(then, loop)
        b.cbranch(b.icmp_signed("<", following, inner), loop, after)
        b.position_at_end(after)
        for r, of in enumerate(new):
            self.store(sums, r * COLUMNS, of)

    def woven(self, w: Any, k: Any, width: Any) -> list[Any]:
        """Rows k and k + 1 of the weights as pairs, four times 16 columns."""
        b, found = self.b, []
        for first in (0, 32):
            low, high = (
                self.load(w, b.add(b.mul(b.add(k, I64(more)), width), I64(first)), BYTES)
                for more in (0, 1)
            )
            low, high = b.sext(low, WORDS), b.sext(high, WORDS)
            found += [b.bitcast(self.shuffled(low, high, order), SUMS) for order in WOVEN]
        return found

    def added(self, x: Any, at: Any, sums: list[Any], pairs: list[Any]) -> list[Any]:
        """The sums of a row, and its next two inputs times these weights."""
        b = self.b
        both = b.insert_element(NOTHING, self.load(x, at, I32), I32(0))
        both = b.shuffle_vector(both, NOTHING, ZEROS)
        dot = b.module.declare_intrinsic(DOT, (), ir.FunctionType(SUMS, [SUMS] * 3))
        return [b.call(dot, [one, both, pair]) for one, pair in zip(sums, pairs, strict=True)]

    def store(self, sums: Any, first: int, of: list[Any]) -> None:
        """The sums of a row, to where its first belongs."""
        b, place = self.b, first
        for low, high in (of[:2], of[2:]):
            for order in UNWOVEN:
                where = b.bitcast(b.gep(sums, [I64(4 * place)]), SUMS.as_pointer())
                b.store(self.shuffled(low, high, order), where, align=4)
                place += 16

    def load(self, base: Any, at: Any, kind: Any) -> Any:
        return self.b.load(self.b.bitcast(self.b.gep(base, [at]), kind.as_pointer()), align=1)

    def shuffled(self, low: Any, high: Any, order: list[int]) -> Any:
        places = ir.Constant(ir.VectorType(I32, len(order)), order)
        return self.b.shuffle_vector(low, high, places)


pointer: Any = intrinsic(_type_pointer)
array_at: Any = njit(_array_at)
dots: Any = intrinsic(prefer_literal=True)(_type_dots)
