"""Every element-wise PTX instruction of the emulator at edge values, against the ISA's definitions.

Integers are computed with Python's integers, floats with fractions that are rounded once.
"""

import itertools
import re
from fractions import Fraction
from math import copysign, inf, isfinite, isnan, isqrt, nan

import numpy as np
import pytest
from test_emulator import device_array, ptx_of, run

from adokernels import _core

# --- Values: integers, and floats of all formats as Python's floats -----------------------------

#: Bits of the significand, exponent of the smallest subnormal, exponent beyond the largest number.
FORMATS = {
    "f64": (53, -1074, 1024),
    "f32": (24, -149, 128),
    "f16": (11, -24, 16),
    "bf16": (8, -133, 128),
    "tf32": (11, -136, 128),
    "e4m3": (4, -9, 9),
    "e5m2": (3, -16, 16),
}
NEAREST, DOWN, UP, ZERO = "rn", "rm", "rp", "rz"


def bits_of(t):
    if t in ("e4m3", "e5m2"):
        return 8
    return {"f16x2": 32, "bf16x2": 32, "e4m3x2": 16, "e5m2x2": 16}.get(t) or int(t.lstrip("subft"))


def is_float(t):
    return t in FORMATS


def encoded(t, number):
    """The bits of a number, which the format can represent."""
    p, least, _beyond = FORMATS[t]
    sign = (copysign(1, number) < 0) << (bits_of(t) - 1)
    top = ((1 << (bits_of(t) - p)) - 1) << (p - 1)  # infinity
    if isnan(number):
        return top | 1
    if not isfinite(number):
        return sign | top
    steps = abs(Fraction(number)) / Fraction(2) ** least
    above = max(int(steps).bit_length() - p, 0)
    return sign | int((above << (p - 1)) + steps / 2**above)


def decoded(t, bits):
    p, least, _ = FORMATS[t]
    sign = -1 if bits >> (bits_of(t) - 1) else 1
    rest = bits & ((1 << (bits_of(t) - 1)) - 1)
    exponent, part = rest >> (p - 1), rest & ((1 << (p - 1)) - 1)
    if t == "e4m3":
        if rest == 0x7F:
            return nan
    elif exponent == (1 << (bits_of(t) - p)) - 1:
        return nan if part else sign * inf
    if exponent:
        part, exponent = part | 1 << (p - 1), exponent - 1
    return copysign(float(Fraction(part) * Fraction(2) ** (least + exponent)), sign)


def rounded(t, value, mode=NEAREST, zero=1, saturated=False):
    """A fraction, rounded to a format. `zero`: the sign of a result that is exactly 0."""
    if not isinstance(value, Fraction):
        return value
    if value == 0:
        return copysign(0.0, zero)
    p, least, beyond = FORMATS[t]
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = Fraction(2) ** max(exponent - p + 1, least)
    whole, rest = divmod(size, step)
    away = {UP: value > 0, DOWN: value < 0, ZERO: False}.get(mode)
    whole += (
        away if away is not None and rest else rest * 2 > step or (rest * 2 == step and whole % 2)
    )
    most = Fraction(2) ** beyond - Fraction(2) ** (beyond - p)
    if t == "e4m3":
        most = Fraction(448)
    if whole * step > most:
        stays = saturated or mode == ZERO or (mode in (UP, DOWN) and not away)
        return (1 if value > 0 else -1) * (float(most) if stays else inf)
    return float(whole * step) * (1 if value > 0 else -1)


def wrap(t, value):
    value = int(value) & ((1 << bits_of(t)) - 1)
    return value - (1 << bits_of(t)) if t[0] == "s" and value >> (bits_of(t) - 1) else value


def limits(t):
    bits = bits_of(t)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if t[0] == "s" else (0, (1 << bits) - 1)


def clamp(t, value):
    low, high = limits(t)
    return min(max(value, low), high)


def edges(t, few=False):
    """Edge values of a type."""
    if t in ("e4m3x2", "e5m2x2"):
        return [*range(0, 1 << 16, 257 if few else 129)]
    if t in ("f16x2", "bf16x2"):
        single = [encoded(t[:-2], x) for x in edges(t[:-2])]
        return [a | b << 16 for a, b in zip(single, single[3:] + single[:3], strict=True)]
    if is_float(t):
        p, least, beyond = FORMATS[t]
        tiny, small = 2.0**least, 2.0 ** (least + p - 1)
        most = float(Fraction(2) ** beyond - Fraction(2) ** (beyond - p))
        chosen = [0.0, -0.0, 1.0, -1.0, inf, -inf, nan, tiny, -tiny, most, -most, small]
        chosen += [1 + 2.0 ** (1 - p), -small, small - tiny, 3.0, -0.5, 1 - 2.0**-p]
        chosen += [
            1.5 * 2.0 ** (p - 1),
            -5 * tiny,
            most / 2,
            2.0 ** (beyond // 2),
            2.0 ** (least // 2),
            7 / 4,
        ]
        return chosen[:: 2 if few else 1] + ([-0.0, nan] if few else [])
    low, high = limits(t)
    common = [0, 1, high, low, high - 1, 31, 32, 33, 7, 0x5A5A5A5A5A5A5A5A, low + 1, 64, 255, 2]
    common += [-1, -7, 63, 128, 1 << (bits_of(t) // 2)]
    return [wrap(t, x) for x in (common[:9] if few else common)]


# --- Operations -----------------------------------------------------------------------------------


def special(function, *x):
    """The IEEE result if an operand is infinite or NaN."""
    with np.errstate(all="ignore"):
        return float(function(*map(np.float64, x)))


def root(x):
    scale = 1 << 2400
    n = x.numerator * scale * scale // x.denominator
    r = isqrt(n)
    exact = r * r == n and x.numerator * scale * scale % x.denominator == 0
    return Fraction(2 * r + (not exact), 2 * scale)


def arithmetic(op, mode, *x):
    """The exact result of an operation, and the sign of a zero."""
    finite, negative = all(map(isfinite, x)), [copysign(1, v) < 0 for v in x]
    opposite = -1 if mode == DOWN else 1  # of x - x
    if op == "sub":
        return arithmetic("add", mode, x[0], -x[1])
    if op == "rcp":
        return arithmetic("div", mode, 1.0, x[0])
    if op == "add":
        if not finite:
            return special(np.add, *x), 1
        same = -1 if negative[0] else 1
        return Fraction(x[0]) + Fraction(x[1]), same if negative[0] == negative[1] else opposite
    if op == "sqrt":
        if not finite or x[0] < 0:
            return special(np.sqrt, *x), 1
        return root(Fraction(x[0])), -1 if negative[0] else 1
    sign = -1 if negative[0] != negative[1] else 1
    if op == "mul":
        return (Fraction(x[0]) * Fraction(x[1]) if finite else special(np.multiply, *x)), sign
    if op == "div":
        if not finite or x[1] == 0:
            return special(np.divide, *x), sign
        return Fraction(x[0]) / Fraction(x[1]), sign
    if not (isfinite(x[0]) and isfinite(x[1])):
        return special(lambda a, b, c: a * b + c, *x), 1
    if not finite:
        return x[2], 1
    return Fraction(x[0]) * Fraction(x[1]) + Fraction(x[2]), sign if (sign < 0) == negative[
        2
    ] else opposite


def flushed(t, x):
    p, least, _ = FORMATS[t]
    return copysign(0.0, x) if abs(x) < 2.0 ** (least + p - 1) else x


def float_operation(t, op, mode=NEAREST, ftz=False, sat=False, relu=False):
    def compute(*x):
        if ftz:
            x = [flushed(t, v) for v in x]
        value, zero = arithmetic(op, mode, *x)
        out = rounded(t, value, mode, zero)
        out = flushed(t, out) if ftz else out
        if sat:
            return min(out, 1.0) if out > 0 else 0.0
        return 0.0 if relu and out <= 0 else out

    return compute


def choose(kind, spreads):
    def compute(a, b):
        if isnan(a) or isnan(b):
            return nan if spreads else b if isnan(a) else a

        def key(v):
            return (v, copysign(1, v))  # -0 is less than 0

        return min(a, b, key=key) if kind == "min" else max(a, b, key=key)

    return compute


COMPARISONS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def field(t, a, position, length):
    position, length, bits = position & 255, length & 255, bits_of(t)

    def at(i):
        return (a >> i) & 1

    sign = at(min(position + length - 1, bits - 1)) if t[0] == "s" and length else 0
    picked = (at(position + i) if i < length and position + i < bits else sign for i in range(bits))
    return sum(bit << i for i, bit in enumerate(picked))


def insert(t, a, b, position, length):
    position, length, bits = position & 255, length & 255, bits_of(t)
    for i in range(length):
        if position + i < bits:
            b = b & ~(1 << (position + i)) | ((a >> i) & 1) << (position + i)
    return b


def bmsk(a, b, clamped):
    total, low = (a & 31) + (b & 31), ~0 << (a & 31)
    beyond = total >= 32 or (clamped and (a >= 32 or b >= 32))
    if clamped and a >= 32:
        return 0
    return low & ~(0 if beyond else ~0 << total)


def nth(mask, base, offset):
    if base > 31:
        return None  # undefined
    if offset == 0:
        return base if mask >> base & 1 else -1
    found, at = 0, base
    while 0 <= at < 32:
        found += mask >> at & 1
        if mask >> at & 1 and found == abs(offset):
            return at
        at += 1 if offset > 0 else -1
    return -1


def highest(t, a):
    return (~a if a < 0 else a).bit_length() - 1


def shift_amount(t, a):
    return -1 if highest(t, a) < 0 else bits_of(t) - 1 - highest(t, a)


def permute(a, b, selector, sign=True):
    source = (b << 32 | a).to_bytes(8, "little")
    out = 0
    for i in range(4):
        pick = selector >> 4 * i & 15
        byte = source[pick & 7]
        out |= (0xFF * (byte >> 7) if pick & 8 and sign else byte) << 8 * i
    return out


def parts(t, word, bits=None):
    size = bits or bits_of(t)
    return [wrap(t[0] + str(size), word >> i) for i in range(0, 32, size)]


def dot(a_type, b_type, a_bits, first=0):
    def compute(a, b, c):
        x, y = parts(a_type, a, a_bits), parts(b_type, b, 8)[first:]
        return sum(p * q for p, q in zip(x, y, strict=False)) + c

    return compute


def simd(t, function):
    def compute(a, b):
        x, y = parts(t, a, 16), parts(t, b, 16)
        return sum(
            (function(p, q) & 0xFFFF) << 16 * i for i, (p, q) in enumerate(zip(x, y, strict=True))
        )

    return compute


def distances(a_type, b_type, added):
    def compute(a, b, c):
        each = [
            abs(x - y) & 0xFFFFFFFF
            for x, y in zip(parts(a_type, a, 8), parts(b_type, b, 8), strict=True)
        ]
        return sum(each) + c if added else sum(d << 8 * i for i, d in enumerate(each))

    return compute


def quotient(a, b):
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def lane_pairs(t, function):
    """The function for both halves of f16x2 registers."""

    def compute(*x):
        out = 0
        for shift in (0, 16):
            result = function(*(decoded(t, v >> shift & 0xFFFF) for v in x))
            out |= encoded(t, result) << shift
        return out

    return compute


def to_integer(t, source, mode):
    def compute(x):
        if isnan(x):
            return wrap(t, 1 << (bits_of(t) - 1)) if "64" in source + t else 0
        low, high = limits(t)
        if not isfinite(x):
            return high if x > 0 else low
        return clamp(t, int(integral(mode)(x)))

    return compute


def integral(mode):
    def compute(x):
        if not isfinite(x):
            return x
        value = Fraction(x)
        whole = {"rni": round, "rzi": int, "rmi": lambda v: v // 1, "rpi": lambda v: -(-v // 1)}[
            mode
        ]
        return copysign(float(whole(value)), x)

    return compute


def eighths(t, pairs):
    def one(x):
        if isnan(x):
            return 0x7F
        value = Fraction(x) if isfinite(x) else Fraction(10**9) * (1 if x > 0 else -1)
        return encoded(t, rounded(t, value, zero=copysign(1, x), saturated=True))

    if pairs:
        return lambda x: one(decoded("f16", x >> 16)) << 8 | one(decoded("f16", x & 0xFFFF))
    return lambda a, b: one(a) << 8 | one(b)


def tf32(away):
    def compute(x):
        if not isfinite(x):
            return x
        value = Fraction(x)
        near = rounded("tf32", value, zero=copysign(1, x))
        if away and isfinite(near):  # ties are rounded away from 0
            outer = rounded("tf32", value, UP if x > 0 else DOWN, copysign(1, x))
            inner = rounded("tf32", value, ZERO, copysign(1, x))
            if isfinite(outer) and Fraction(outer) + Fraction(inner) == 2 * value:
                return outer
        return near

    return compute


def table():
    """instruction: (result type, operand types, function). None as a result: undefined."""
    cases = {}

    def add(instruction, result, operands, function):
        operands = operands.split()
        names = ", ".join(f"%x{i}" for i in range(len(operands)))
        cases[f"{instruction} %d, {names}"] = result, operands, function

    def predicate(instruction, operands, function, result="u32"):
        names = ", ".join(f"%x{i}" for i in range(len(operands.split())))
        text = f"{instruction} %p0, {names}; selp.u32 %d, 1, 0, %p0"
        cases[text] = result, operands.split(), lambda *x: int(function(*x))

    for t in ("u16", "s16", "u32", "s32", "u64", "s64"):
        bits = bits_of(t)
        for name, function in {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul.lo": lambda a, b: a * b,
            "mul.hi": lambda a, b, n=bits: a * b >> n,
            "min": min,
            "max": max,
            "div": quotient,
            "rem": lambda a, b: None if b == 0 else a - b * quotient(a, b),
        }.items():
            add(f"{name}.{t}", t, f"{t} {t}", function)
        add(f"mad.lo.{t}", t, f"{t} {t} {t}", lambda a, b, c: a * b + c)
        add(f"mad.hi.{t}", t, f"{t} {t} {t}", lambda a, b, c, n=bits: (a * b >> n) + c)
        add(f"sad.{t}", t, f"{t} {t} {t}", lambda a, b, c: abs(a - b) + c)
        add(f"shr.{t}", t, f"{t} u32", lambda a, n: a >> n)
        for name, function in COMPARISONS.items():
            predicate(f"setp.{name}.{t}", f"{t} {t}", function)
        if t[0] == "s":
            add(f"neg.{t}", t, t, lambda a: -a)
            add(f"abs.{t}", t, t, abs)
        if bits < 64:
            w = t[0] + str(2 * bits)
            add(f"mul.wide.{t}", w, f"{t} {t}", lambda a, b: a * b)
            add(f"mad.wide.{t}", w, f"{t} {t} {w}", lambda a, b, c: a * b + c)
    for t in ("b16", "b32", "b64"):
        u = "u" + t[1:]
        for name, function in {
            "and": lambda a, b: a & b,
            "or": lambda a, b: a | b,
            "xor": lambda a, b: a ^ b,
        }.items():
            add(f"{name}.{t}", u, f"{u} {u}", function)
        add(f"not.{t}", u, u, lambda a: ~a)
        add(f"cnot.{t}", u, u, lambda a: a == 0)
        add(f"shl.{t}", u, f"{u} u32", lambda a, n: a << min(n, 64))
        add(f"mov.{t}", u, u, lambda a: a)
        cases[f"setp.lt.u32 %p0, %x2, 5; selp.{t} %d, %x0, %x1, %p0"] = (
            u,
            [u, u, "u32"],
            lambda a, b, c: a if c < 5 else b,
        )
        if t != "b16":
            add(f"popc.{t}", "u32", u, lambda a: a.bit_count())
            add(f"clz.{t}", "u32", u, lambda a, u=u: bits_of(u) - a.bit_length())
            add(f"brev.{t}", u, u, lambda a, u=u: int(f"{a:0{bits_of(u)}b}"[::-1], 2))
            add(f"bfi.{t}", u, f"{u} {u} u32 u32", lambda a, b, c, d, u=u: insert(u, a, b, c, d))
    for t in ("u32", "s32", "u64", "s64"):
        add(f"bfind.{t}", "u32", t, lambda a, t=t: highest(t, a))
        add(f"bfind.shiftamt.{t}", "u32", t, lambda a, t=t: shift_amount(t, a))
        add(f"bfe.{t}", t, f"{t} u32 u32", lambda a, b, c, t=t: field(t, a, b, c))
    for name, sign in {"add": 1, "sub": -1}.items():
        add(f"{name}.sat.s32", "s32", "s32 s32", lambda a, b, s=sign: clamp("s32", a + s * b))
    for t in ("u32", "s32"):

        def low(a, t=t):
            return wrap(t[0] + "32", a << 8) >> 8

        add(f"mul24.lo.{t}", t, f"{t} {t}", lambda a, b, low=low: low(a) * low(b))
    for mode in ("clamp", "wrap"):
        add(f"bmsk.{mode}.b32", "u32", "u32 u32", lambda a, b, c=mode == "clamp": bmsk(a, b, c))
        count = (lambda n: min(n, 32)) if mode == "clamp" else (lambda n: n & 31)
        for side, up in {"l": 1, "r": 0}.items():

            def funnel(a, b, n, count=count, up=up):
                return (b << 32 | a) << count(n) >> 32 if up else (b << 32 | a) >> count(n)

            add(f"shf.{side}.{mode}.b32", "u32", "u32 u32 u32", funnel)
    add("fns.b32", "u32", "u32 u32 s32", nth)
    add("prmt.b32", "u32", "u32 u32 u32", permute)
    for a, b in itertools.product(("u32", "s32"), repeat=2):
        d = "u32" if a == b == "u32" else "s32"
        add(f"dp4a.{a}.{b}", d, f"u32 u32 {d}", dot(a, b, 8))
        add(f"dp2a.lo.{a}.{b}", d, f"u32 u32 {d}", dot(a, b, 16))
        add(f"dp2a.hi.{a}.{b}", d, f"u32 u32 {d}", dot(a, b, 16, 2))
        add(f"vabsdiff4.u32.{a}.{b}", "u32", "u32 u32 u32", distances(a, b, added=False))
        add(f"vabsdiff4.u32.{a}.{b}.add", "u32", "u32 u32 u32", distances(a, b, added=True))
    for t in ("u16", "s16"):
        for name, function in {"add": lambda a, b: a + b, "min": min, "max": max}.items():
            add(f"{name}.{t}x2", "u32", "u32 u32", simd(t, function))
    for lut in (0x96, 0xE8, 0x01, 0xFE):
        cases[f"lop3.b32 %d, %x0, %x1, %x2, {lut}"] = (
            "u32",
            ["u32", "u32", "u32"],
            lambda a, b, c, n=lut: sum(
                (n >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i
                for i in range(32)
            ),
        )
    for t in ("u32", "u64"):
        n = bits_of(t)
        carry = f"{{ .reg .b{n} %l; add.cc.{t} %l, %x0, %x1; addc.{t} %d, %x2, 0; }}"
        cases[carry] = t, [t, t, t], lambda a, b, c, n=n: c + (a + b >> n)
        borrow = f"{{ .reg .b{n} %l; sub.cc.{t} %l, %x0, %x1; subc.{t} %d, %x2, 0; }}"
        cases[borrow] = t, [t, t, t], lambda a, b, c: c - (a < b)
        product = (
            f"{{ .reg .b{n} %l; mad.lo.cc.{t} %l, %x0, %x1, %x2; madc.hi.{t} %d, %x0, %x1, 0; }}"
        )
        cases[product] = t, [t, t, t], lambda a, b, c, n=n: a * b + c >> n

    for t in ("f32", "f64"):
        for mode, (op, count) in itertools.product(
            (NEAREST, DOWN, UP, ZERO),
            {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "rcp": 1, "sqrt": 1}.items(),
        ):
            operands = " ".join([t] * count)
            add(f"{op}.{mode}.{t}", t, operands, float_operation(t, op, mode))
            if t == "f32":
                add(f"{op}.{mode}.ftz.f32", t, operands, float_operation(t, op, mode, ftz=True))
            if t == "f32" and op in ("add", "sub", "mul", "fma"):
                add(f"{op}.{mode}.sat.f32", t, operands, float_operation(t, op, mode, sat=True))
        predicate(f"testp.finite.{t}", t, isfinite)
        predicate(f"testp.infinite.{t}", t, lambda x: abs(x) == inf)
        predicate(f"testp.number.{t}", t, lambda x: not isnan(x))
        predicate(f"testp.notanumber.{t}", t, isnan)
        predicate(f"testp.normal.{t}", t, lambda x, t=t: isfinite(x) and flushed(t, x) != 0)
        predicate(f"testp.subnormal.{t}", t, lambda x, t=t: x != 0 and flushed(t, x) == 0)
        add(f"copysign.{t}", t, f"{t} {t}", lambda a, b: copysign(b, a))
    for t in ("f32", "f64", "f16", "bf16"):
        add(f"neg.{t}", t, t, lambda x: -x)
        add(f"abs.{t}", t, t, abs)
        for kind in ("min", "max"):
            add(f"{kind}.{t}", t, f"{t} {t}", choose(kind, spreads=False))
            if t != "f64":
                add(f"{kind}.NaN.{t}", t, f"{t} {t}", choose(kind, spreads=True))
        for name, function in COMPARISONS.items():

            def ordered(a, b, f=function):
                return not isnan(a) and not isnan(b) and f(a, b)

            def unordered(a, b, f=function):
                return isnan(a) or isnan(b) or f(a, b)

            predicate(f"setp.{name}.{t}", f"{t} {t}", ordered)
            predicate(f"setp.{name}u.{t}", f"{t} {t}", unordered)
        predicate(f"setp.num.{t}", f"{t} {t}", lambda a, b: not isnan(a) and not isnan(b))
        predicate(f"setp.nan.{t}", f"{t} {t}", lambda a, b: isnan(a) or isnan(b))
        add(f"set.gt.u32.{t}", "u32", f"{t} {t}", lambda a, b: -(a > b))
        if t != "f64":
            add(f"set.gt.{t}.{t}", t, f"{t} {t}", lambda a, b: float(a > b))
    for t in ("f16", "bf16"):
        for op, count in {"add": 2, "sub": 2, "mul": 2, "fma": 3}.items():
            variants = {"": {}, ".sat": {"sat": True}}
            if op == "fma":
                variants[".relu"] = {"relu": True}
            if t == "f16":
                variants[".ftz"] = {"ftz": True}
            for suffix, options in variants.items():
                function = float_operation(t, op, **options)
                add(f"{op}.rn{suffix}.{t}", t, " ".join([t] * count), function)
                packed = " ".join([f"{t}x2"] * count)
                add(f"{op}.rn{suffix}.{t}x2", "u32", packed, lane_pairs(t, function))
        for kind, spreads in itertools.product(("min", "max"), (False, True)):
            name = f"{kind}{'.NaN' if spreads else ''}.{t}x2"
            add(name, "u32", f"{t}x2 {t}x2", lane_pairs(t, choose(kind, spreads)))
        add(f"set.le.{t}x2.{t}x2", "u32", f"{t}x2 {t}x2", lane_pairs(t, lambda a, b: float(a <= b)))
        cases[f"setp.lt.{t}x2 %p0|%p1, %x0, %x1; selp.u32 %d, 1, 0, %p1"] = (
            "u32",
            [f"{t}x2"] * 2,
            lambda a, b, t=t: int(decoded(t, a >> 16) < decoded(t, b >> 16)),
        )

    integers = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")

    def register(t):
        return t[0] + "16" if t in ("u8", "s8") else t

    for a, b in itertools.product(integers, repeat=2):

        def value(x, a=a):
            return wrap(a, x)

        add(f"cvt.{b}.{a}", register(b), register(a), lambda x, v=value, b=b: wrap(b, v(x)))
        add(f"cvt.sat.{b}.{a}", register(b), register(a), lambda x, v=value, b=b: clamp(b, v(x)))
    for a, t, mode in itertools.product(
        integers, ("f16", "bf16", "f32", "f64"), (NEAREST, DOWN, UP, ZERO)
    ):

        def from_integer(x, a=a, t=t, mode=mode):
            return rounded(t, Fraction(wrap(a, x)), mode)

        add(f"cvt.{mode}.{t}.{a}", t, register(a), from_integer)
    for a, t, mode in itertools.product(
        ("f16", "bf16", "f32", "f64"), integers, ("rni", "rzi", "rmi", "rpi")
    ):
        add(f"cvt.{mode}.{t}.{a}", register(t), a, to_integer(t, a, mode))
        add(f"cvt.{mode}.{a}.{a}", a, a, integral(mode))
    narrowing = [("f64", "f32"), ("f64", "f16"), ("f64", "bf16"), ("f32", "f16"), ("f32", "bf16")]
    for (a, t), mode in itertools.product(narrowing, (NEAREST, DOWN, UP, ZERO)):

        def narrow(x, t=t, m=mode):
            return rounded(t, Fraction(x), m, copysign(1, x)) if isfinite(x) else x

        add(f"cvt.{mode}.{t}.{a}", t, a, narrow)
        if a == "f32" and mode in (NEAREST, ZERO):

            def relu(x, narrow=narrow):
                return 0.0 if x <= 0 else narrow(x)

            add(f"cvt.{mode}.relu.{t}.f32", t, a, relu)
            for suffix, each in {"": narrow, ".relu": relu}.items():

                def pair(x, y, t=t, f=each):
                    return encoded(t, f(x)) << 16 | encoded(t, f(y))

                add(f"cvt.{mode}{suffix}.{t}x2.f32", "u32", "f32 f32", pair)
    for a, t in [("f32", "f64"), ("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("bf16", "f64")]:
        add(f"cvt.{t}.{a}", t, a, lambda x: x)
    add("cvt.sat.f32.f32", "f32", "f32", lambda x: min(x, 1.0) if x > 0 else 0.0)
    add("cvt.ftz.f32.f32", "f32", "f32", lambda x: flushed("f32", x))
    add("cvt.rna.tf32.f32", "f32", "f32", tf32(away=True))
    add("cvt.rn.tf32.f32", "f32", "f32", tf32(away=False))
    for t in ("e4m3", "e5m2"):
        add(f"cvt.rn.satfinite.{t}x2.f32", "u16", "f32 f32", eighths(t, pairs=False))
        add(f"cvt.rn.satfinite.{t}x2.f16x2", "u16", "f16x2", eighths(t, pairs=True))

        def wide(x, t=t):
            return sum(encoded("f16", decoded(t, x >> s & 255)) << 2 * s for s in (0, 8))

        add(f"cvt.rn.f16x2.{t}x2", "u32", f"{t}x2", wide)
    for t in ("u16", "s16"):

        def words(a, b, t=t):
            return (clamp(t, a) & 0xFFFF) << 16 | clamp(t, b) & 0xFFFF

        add(f"cvt.pack.sat.{t}.s32", "u32", "s32 s32", words)
    for t in ("u8", "s8"):

        def bytes_of(a, b, c, t=t):
            return (c << 16 | (clamp(t, a) & 255) << 8 | clamp(t, b) & 255) & 0xFFFFFFFF

        add(f"cvt.pack.sat.{t}.s32.b32", "u32", "s32 s32 u32", bytes_of)
    return cases


CASES = table()

#: Operand types as bits of registers, because not all types can be loaded.
REGISTERS = {
    "f16": "u16",
    "bf16": "u16",
    "f16x2": "u32",
    "bf16x2": "u32",
    "e4m3x2": "u16",
    "e5m2x2": "u16",
}


def as_bits(t, values):
    return [encoded(t, v) if is_float(t) else v & ((1 << bits_of(t)) - 1) for v in values]


@pytest.mark.parametrize("instruction", CASES)
def test_an_opcode(instruction):
    result, types, function = CASES[instruction]
    combinations = list(itertools.product(*(edges(t, few=len(types) > 2) for t in types)))
    rng = np.random.default_rng(len(combinations))
    if len(combinations) > 1024:
        combinations = [combinations[i] for i in rng.choice(len(combinations), 1024, replace=False)]
    stored = [REGISTERS.get(t, t) for t in types]
    out_type = REGISTERS.get(result, result)
    n = len(combinations)
    arrays = [
        device_array(n, f"u{bits_of(s) // 8}", as_bits(t, [c[i] for c in combinations]))
        for i, (t, s) in enumerate(zip(types, stored, strict=True))
    ]
    out = device_array(n, f"u{bits_of(out_type) // 8}")
    module = _core.EmulatedModule(ptx_of(instruction + ";", out_type, stored))
    run(module, "k", (1,), (n,), out, *arrays, outputs=[out])
    wrong = []
    for bits, combination in zip(map(int, out), combinations, strict=True):
        expected = function(*combination)
        if expected is None:
            continue
        if is_float(result):
            found = decoded(result, bits)
            same = isnan(found) if isnan(expected) else bits == encoded(result, expected)
        else:
            found, same = bits, bits == int(expected) & ((1 << bits_of(result)) - 1)
            pairs = re.search(r"\b(b?f16)x2", instruction)
            same = same or (pairs and same_halves(pairs[1], bits, int(expected)))
        if not same:
            wrong.append((combination, found, expected))
    assert not wrong, (len(wrong), wrong[:5])


def same_halves(t, a, b):
    """Equal, or NaN with any payload, in both halves."""
    pairs = [(a >> s & 0xFFFF, b >> s & 0xFFFF) for s in (0, 16)]
    return all(x == y or (isnan(decoded(t, x)) and isnan(decoded(t, y))) for x, y in pairs)
