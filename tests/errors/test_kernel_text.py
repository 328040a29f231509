"""What a kernel can't say: the class, the words, the line, the caret, and what to do."""

from __future__ import annotations

import re

import pytest

import tilejit as tj
from tests.support.marked import default_arguments, execute, kernel_text, points_at, refused

SYNTAX, TYPE, LAYOUT, DISPATCH = tj.KernelSyntaxError, tj.KernelTypeError, tj.LayoutError, tj.DispatchError

# statements with the place of the error between « and », what the message says, what the help says; … is anything,
# {0} the number of the first line
SYNTAX_CASES = [
    ("f = «lambda *x: x»", "*args and **kwargs", "name the parameters"),
    ("«try:»\n    A[0, 0] = 1\nfinally:\n    pass", "try", "test the condition with if"),
    ("«with A:»\n    pass", "with", "no context managers"),
    ("«class C:»\n    pass", "a class", "define it outside"),
    ("x = [i for i in «range(3)»]", "range can only be used in a for loop", "tj.static_range(...)"),
    ("x = sum(i for i in «n»)", "a comprehension iterates over", "tj.static_range(N), and index"),
    ("x = «{i: 1 for i in range(3)}»", "a dict comprehension", "build the dict outside"),
    ("x = «{i for i in range(3)}»", "a set comprehension", "list comprehension makes a tuple"),
    ("x = helper(«*A»)", "* and **", "write the arguments out"),
    ("x = helper(«**A»)", "* and **", "write the arguments out"),
    ("«global q»", "global", "store into an array"),
    ("«del n»", "del", "leave it out"),
    ("«import os»", "import", "at the top of the module"),
    ("«from os import path»", "import", "at the top of the module"),
    ("«async def f():»\n    pass", "an async function", "write def"),
    ("if («y := n») > 0:\n    A[0, 0] = 1", "an assignment expression :=", "in a separate statement"),
    ("x = «{1, 2}»", "a set", "write a tuple"),
    ("x = «{1: 2}»", "a dict", "build it outside"),
    ("x = «[1, 2]»", "a list", "write a tuple"),
    ("«raise ValueError»", "raise", "assert condition"),
    ("«yield n»", "yield", "store into a buffer"),
    ("for i in «A»:\n    pass", "a for loop iterates over range(...)", "loop over range(len(A))"),
    ("for i in range(3):\n    pass\nelse:\n    «A[0, 0] = 1»", "else of a loop", "set a flag"),
    ("while n > 0:\n    break\nelse:\n    «pass»", "else of a loop", "set a flag"),
    ("«match n:»\n    case 1:\n        pass", "match", "if and elif"),
    ("«x: int»", "a declaration without a value", "assign a value"),
    ("«A.x» = 3", "an attribute can't be assigned", "in a variable"),
    ("«*x, y» = (1, 2, 3)", "* can't be used in an assignment", "name every item"),
    ("print(n, «file=3»)", "print in a kernel can't take file", "sep= and end="),
    ("«open('f')»", "open can't be called", "compute it outside"),
    ("«np.zeros(3)»", "zeros can't be called", "compute it outside"),
    ("«tj.empty((3,), tj.float32)»", "empty is a host function of tilejit", "call it outside"),
    ("«k(A, B, n)»", "k is a kernel", "make it a @tj.function"),
    ("«k[1]»(A, B, n)", "k is a kernel: a kernel can't launch another", "make it a @tj.function"),
    ("«k[(1, 1), 32]»(A, B, n)", "k is a kernel: a kernel can't launch another", "make it a @tj.function"),
    ("x = «np.exp(A[0, 0])»", "np.exp can't be called in a kernel", "write tj.exp; or compute it outside"),
    ("x = «np.linalg.norm(A)»", "np.linalg.norm can't be called in a kernel", "compute it outside"),
    ("«a, *b» = 1, 2", "* can't be used in an assignment", "name every item"),
    ("x = tj.exp(«*n»)", "* and **", "write the arguments out"),
    ("x = «plain(n)»", "plain Python function", "@tj.function"),
    ("x = «3j»", "3j", "floats"),
    ("«...»", "... can't be used", "or pass as a body"),
    ("x = «range(3)»", "range can only be used in a for loop", "for i in range(...)"),
    ("return «3»", "kernels return no value", "in an array argument"),
]

TYPE_CASES = [
    ("x = «'abc'.upper»()", "'abc' has no attribute upper", "compute it outside"),
    ('x = f"{«n»}"', "f-strings take only compile-time values; this is a scalar of int32", ""),
    ("x = 1 if n in «WORDS» else 2", "WORDS is a list; a kernel captures numbers", "make it a tuple"),
    ("«x, y» = (1, 2, 3)", "can't unpack 3 items into 2 names", "one name per item"),
    ("«x, y» = n", "only a tuple can be unpacked; this is a scalar of int32", "one name"),
    ("x = (1, n)\n«x[0]» = 3", "a tuple can't be changed", "make a new tuple"),
    ("«A[0, 0:8]» *= n + 1", "only single elements can be assigned", "tj.cta.load(A[0, 0:8]) * (n + 1))"),
    ("«A.at(n)[0:8]» = 3", "(8) and float32 can't be assigned to", "write tj.cta.store(A.at(n)[0:8], tile)"),
    ("x = «A.layout»", "has no attribute layout", "only a whole tile or buffer with compile-time shape and strides"),
    ("x = helper(n, «cache=3»)", "helper has no parameter cache", "its parameters"),
    ("print(«A»)", "print takes scalars, strings, local tiles and tuples of these; this is a global", "index it"),
    ("«math.sin(n)»", "sin runs at compile time", "tj.sin"),
    ("x = «missing» + 1", "missing is not defined", "define it at the top of the module"),
    ("limitt = 1\nA[0, 0] = «limit»", "limit is not defined", "did you mean limitt?"),
    ("A[0, 0] = «x»\nx = 1", "x has no value yet", "before"),
    ("A[0, 0] = «tj.cta_idd»(0)", "no cta_idd", "did you mean cta_id?"),
    ("A[0, 0] = «A.shap»[0]", "shap", "shape"),
    ("A[0, 0] = «n.foo»", "foo", "astype"),
    ("A[0, 0] = «WORDS»[0]", "WORDS is a list", "tuple"),
    ("A[0, 0] = len(«QUEUE»)", "QUEUE is a deque; a kernel captures numbers", "make it a tuple"),
    ("A[0, 0] = «WEIGHTS»[0]", "is an array", "argument"),
    ("A[0, 0] = «len(n)»", "len runs at compile time", "compile-time values"),
    ("A[0, 0] = «n if n > 0 else A»", "the value is", ""),
    ("print(f'{«n»}')", "f-string", "pass the value to print"),
    ("f = 3\n«f()»", "can't be called", ""),
    ("x = tj.cta.load(A[0:4, 0:8])\ny = «min(1, x)»", "min takes scalars; this is a local tile", "write tj.min(x)"),
    ("x = tj.sum(tj.cta.load(A[0:4, 0:8]))\ny = «x.view(tj.int16)»", "has no dimensions, and int16", "same width"),
    ("«A[0, 0], x» = n", "unpacked", ""),
    ("«A[0, 0], x» = tj.cta_id()", "unpacked", "tj.cta_id(0), tj.cta_id(1)"),
    ("A[0, 0] = tj.sum(«n»)", "sum reduces a local tile; this is a scalar of int32", "min(a, b)"),
    ("«tj.grid_wait»()", "tilejit.grid_wait, which waits for the previous kernel, is not available", "leave it out"),
    ("tj.atomic.cas(«A[0, 0]», 1.0, 2.0)", "atomic cas does not support float32", "A.view(tj.int32)"),
    ("tj.atomic.add(«A[0]», 1.0)", "has a run-time extent", "take a slice of static extent"),
    ("tj.atomic.add(A[0, 0], «A[0]»)", "one element takes a scalar", "x[i, j]"),
    ("«tj.atomic.add(A[0, 0], 1.0, order='strong')»", "'strong' is not a memory order", "acq_rel"),
    ("x = tj.shuffle(«A[0]», 3)", "tj.shuffle takes one scalar per thread", "x.registers"),
    ("x = tj.shuffle(n, «A[0, 0]»)", "lane must be an integer", "int(x)"),
    ("x = tj.uniform(n, «tj.thread»)", "tj.thread is not a scope of several threads", "tj.warp"),
    ("x = tj.uniform(«A[0, 0]», tj.cta)", "tj.uniform takes an integer or a bool_", "tj.uniform(x > 0"),
    ("«tj.grid_sync()»", "could wait for CTAs that can't start until others have ended", "cooperative=True"),
    ("x = «tj.cta.coppy»(A, B)", "tj.cta has no attribute coppy", "did you mean copy?"),
    ("x = «tj.cta_id(5)»", "a grid has no axis 5", "three axes"),
    ("x = «helper(1, 2)»", "helper takes at most 1 argument; got 2", "its parameters: x"),
    ("x = «helper()»", "helper needs x", "its parameters: x"),
    ("x = helper(«y=2»)", "helper has no parameter y", "its parameters: x"),
    ("x = «A[0, 0, 0]»", "3 indices for 2 dimensions of A", ""),
    ("x = A[«0.5», 0]", "an index must be an integer; this is the constant 0.5", ""),
    ("x = A[«n > 0», 0]", "an index must be an integer; this is a scalar of bool_", "int(x)"),
    ("x = «A + 1»", "add takes scalars and local tiles; got a global region of shape (?, ?)", "tj.cta.load"),
    ("x = «A[0, 0] & 1»", "bitwise_and takes integers or bool_; got float32", "convert the operands"),
    ("x = «n & 1.5»", "takes integers", ""),
    ("x = «1 << -1»", "ValueError in a compile-time expression: negative shift count", "change its operands"),
    ("x = «1 // 0»", "ZeroDivisionError in a compile-time expression", "change its operands"),
    ("x = «n + 2**40»", "1099511627776 doesn't fit in int32", "tj.int64(1099511627776)"),
    ("x = «n + 10**400»", "doesn't fit in int32", "use a smaller one"),
    ("tj.bulk.wait(«-1»)", "n must be at least 0; got -1", "tj.bulk.wait(0)"),
    ("x = «1 if n > 0 else 'a'»", "is the constant 1 on one path, and the constant 'a' on another", "convert one"),
    ("if «A»:\n    pass", "a condition must be a scalar", "A is not None"),
    ("x = «A[0, 0] + 'text'»", "got the constant 'text'", "give a number"),
    ("x = «tj.exp('a')»", "exp takes scalars and local tiles; got the constant 'a'", "give a number"),
    ("x = «tj.exp(n, n)»", "tj.exp takes at most 1 argument; got 2", "its parameters: x"),
    ("x = «pow(n, 2)»", "pow runs at compile time", "**"),
    ("x = «''[0]»", "index 0 is outside a string of length 0", "leave the index out"),
    ("x = «'abc'[3]»", "index 3 is outside a string of length 3", "-3 <= i < 3"),
    ("x = «(1, 2)[::0]»", "the step of a slice can't be 0", "leave it out"),
    ("x = «'abc'[::0]»", "the step of a slice can't be 0", "leave it out"),
    ("«A[0, 0]» = 10**400", "an integer of 1,329 bits doesn't fit in float32", "tj.inf"),
    ("x = «10**400 if n > 0 else A[0, 0]»", "an integer of 1,329 bits doesn't fit in float32", "tj.inf"),
    ("x = 10**30\nif «n > 0»:\n    x = 3\ny = x", "1000000000000000000000000000000 doesn't fit in int32", "tj.float64"),
    ("«print('a\\0b', n)»", "a GPU can't print 'a\\x00b '", "leave invalid"),
    ("«print('\\ud800')»", "a GPU can't print", "leave invalid"),
    ("x = «tj.load»(A)", "tilejit has no load", "tj.warp.load"),
    ("x = «A.shape[2]»", "index 2 is outside a tuple of length 2", "-2 <= i < 2"),
    ("x = «n.shape»", "a scalar of int32 has no attribute shape", "it has astype, dtype"),
    ("tj.cta.copy(B[«0:n», 0:8], A[0:n, 0:8])", "the extent of this slice is not known", "A.tile((N,), (i,))"),
    ("tj.cta.copy(B[0:8, 0:8:«n»], A[0:8, 0:8:2])", "the step of a slice must be known", "B.at(tj.cta.indices((N,)"),
    ("tj.cta.copy(B[0:8, «8:0:-2»], A[0:8, 0:8:2])", "the step of a region must be positive; got -2", "tj.flip("),
    ("tj.cta.copy(B[«n:n + 8:2», 0:8], A[0:4, 0:8])", "the start of a slice with step 2", "B.at(tj.cta.indices((N,)"),
    ("x = tj.cta.load(A[0:8, 0:8])[::«n»]", "the step of a slice must be known", "tj.gather("),
    ("x = tj.cta.load(A[0:8, 0:8])[::«0»]", "the step of a slice can't be 0", "leave it out"),
    ("x = tj.cta.load(A[0:8, 0:8])[«0:4:-1»]", "this slice has extent -4", "at most the start"),
    ("x = tj.cta.load(A[0:8, 0:8])\ntj.cta.store(«x[::2]», x[0:4])", "result of an expression", "alloc_local"),
    ("x = tj.cta.load(A[0:8, 0:8])\ny = «x[tj.thread_id() % 8]»", "may differ between threads", "tj.gather(x, index"),
    ("x = tj.cta.load(A[0:8, 0:8])\ny = «x[1, tj.lane_id() % 8]»", "may differ between threads", "tj.gather(x, index"),
    ("x = tj.cta.load(A[0:8, 0:8])\ny = «tj.roll(x, tj.lane_id(), 0)»", "may differ between threads", "tj.gather("),
    ("x = tj.cta.load(A[0:8, 0:8])\ny = tj.roll(x, «1.5», 0)", "the shift must be an integer; got 1.5", "whole number"),
    ("x = tj.cta.load(A[0:8, 0:8])\ny = tj.roll(x, «A[0, 0]», 0)", "the shift must be an integer", "int(x)"),
    ("x = tj.cta.load(A[0:8, 0:8])\ny = tj.gather(x, «x», 0)", "an index must be an integer", "index.astype(tj.int32)"),
    (
        "x = tj.cta.load(A[0:8, 0:8])\ny = tj.gather(x, «tj.cta.indices((8, 4), 0)», 0)",
        "the index has shape (8, 4), the tile (8, 8)", "except along axis 0",
    ),
    (
        "x = tj.cta.load(A[0:8, 0:8])\ny = tj.gather(«x[0:0]», tj.cta.indices((8, 8), 0), 0)",
        "axis 0 of a tile of shape (0, 8) has no elements", "gather from a tile that has elements",
    ),
    ("x = tj.cta.load(A[0:8, 0:8])\ny = tj.flip(x, «2»)", "axis 2 is out of range", "-2 to 1"),
    ("x = tj.cta.load(A[0:8, 0:8])\ny = tj.histogram(«x», 4)", "histogram counts integers", "((x - low) * scale)"),
    ("y = tj.histogram(tj.cta.indices((8,), 0), «n»)", "the number of bins must be known at compile time", "constexpr"),
    ("y = tj.histogram(tj.cta.indices((8,), 0), «0»)", "the number of bins must be positive; got 0", "at least 1"),
    ("tj.cta.copy(B[«8:0», 0:8], A[8:0, 0:8])", "this slice has extent -8", "don't count from the end"),
    ("«tj.cta.copy(B[0:8, 0:8], A[0:8, 0:4])»", "the destination has (8, 8), the source (8, 4)", "slice the larger"),
    ("tj.cta.copy(«B[0:8]», A[0:8])", "dimension 1 of B has a run-time extent", "tj.spec(...)"),
    (
        "s = tj.alloc_shared((8, 8), tj.float16)\n«tj.cta.copy(s, A[0:8, 0:8])»",
        "the destination is float16, the source float32", "x.astype(tj.float16)",
    ),
    (
        "s = tj.alloc_shared((8, 8), tj.float32)\ntj.cta.copy(s[«4:12», 0:8], A[0:8, 0:8])",
        "[4 : 12] is out of bounds for dimension 0 of s, whose extent is 8",
        "regions of global tensors may extend past the edge",
    ),
    ("s = tj.alloc_shared((8, 8), tj.float32)\nx = s[«8», 0]", "index 8 is outside dimension 0 of s, whose extent", ""),
    ("s = tj.alloc_shared((8, 8), tj.float32)\nx = s[«-1», 0]", "indices don't count from the end", "s.shape[0] - 1"),
    (
        "s = tj.alloc_shared((8, 8), tj.float32)\n«s[tj.lane_id() + 8, 0]» = 1.0",
        "dimension 0 of s has 8 elements; accessing 1 from 8 or more is out", "only of global tensors",
    ),
    ("A[«-1», 0] = 0", "index -1", "A.shape[0] - 1"),
    ("x = tj.cta.load(A[0, «-2»:])", "index -2 is negative: indices don't count from the end", "A.shape[1] - 2"),
    ("tj.cta.copy(B[«-8»:-4, 0:8], A[0:4, 0:8])", "index -8 is negative", "write B.shape[0] - 8"),
    ("s = tj.alloc_shared((8, 8), tj.float32)\ntj.cta.fill(s[«-2»:, 0:8], 0)", "index -2 is neg", "s.shape[0] - 2"),
    ("x = A[0:8, 0:8][«-1», 0]", "index -1 is negative", "write 7"),
    ("x = tj.cta.zeros((8,), tj.float32)[«-2»:]", "index -2 is negative", "6"),
    ("«A[0, 0:32]» = n", "single elements", "write tj.cta.fill(A[0, 0:32], value)"),
    ("«A[0, 0:32]» = tj.cta.load(B[0, 0:32])", "single elements", "write tj.cta.store(A[0, 0:32], tile)"),
    ("«A[0, 0:32]» = B[0, 0:32]", "single elements", "write tj.cta.copy(A[0, 0:32], tile)"),
    ("x = tj.warp.load(A[0:8, 0:8])\n«x[0:4]» = x[4:8]", "single elements", "rebind the name"),
    ("x = tj.warp.load(A[0:8, 0:8])\n«x[0:4]» += 1", "single elements", "allocate a buffer with tj.alloc_local"),
    ("x = tj.warp.load(A[0, 0:64])\ntj.warp.fill(«x», 0)", "result of an expression", "alloc_local"),
    (
        "x = tj.alloc_local((32,), tj.float32, layout=tj.S[32 : 1 @ tj.laneid])\n«x[3]» = 1.0",
        "distributed over the threads", "registers",
    ),
    ("x = «A @ B»", "@ takes local tiles; got a global region", "x = tj.cta.load(region)"),
    (
        "x = tj.warp.load(A[0, 0:64])\ny = tj.cta.load(B[0, 0:64])\nz = «x + y»",
        "add can't combine a tile of a cta and a tile of a warp: each of the 2 warps has its own",
        "create both on one scope",
    ),
    (
        "x = tj.warp.load(A[0, 0:64])\n«tj.cta.store(B[0, 0:64], x)»",
        "cta.copy can't take x, a tile of a warp", "call it on the scope that owns the tile: tj.warp.copy",
    ),
    ("x = tj.cta.load(A[0:4, 0:8])\ny = «x + x.T»", "shapes (4, 8) and (8, 4) don't broadcast", "x[:, None]"),
    ("x = tj.cta.load(A[0, 0:8], mask=«A»)", "mask= takes local tiles; got a global region", "tj.cta.load(region)"),
    (
        "m = tj.cta.zeros((3,), tj.bool_)\nx = «tj.cta.load(A[0, 0:8], mask=m)»",
        "a mask of shape (3,) doesn't broadcast to (8,)", "slice the mask",
    ),
    (
        "m = tj.cta.zeros((8,), tj.int32)\nx = «tj.cta.load(A[0, 0:8], mask=m)»",
        "the mask is int32; it must be bool_", "x != 0",
    ),
    (
        "x = tj.cta.load(A[0, 0:8], cache=«'cold'»)",
        "cache= is 'evict_first' or 'evict_last' or 'streaming'; got 'cold'", "leave cache= out",
    ),
    (
        "x = tj.cta.load(A[0:4, 0:8])\ny = «tj.cat(x, x[:, 0:4], 0)»",
        "can't concatenate tiles of shapes (4, 8) and (4, 4) along axis 0", "other extents must be equal",
    ),
    (
        "x = tj.cta.load(A[0:4, 0:8])\ny = tj.split(x, 2, «2»)",
        "axis 2 is out of range for 2 dimensions", "-2 to 1",
    ),
    (
        "x = tj.cta.load(A[0:4, 0:8])\ny = tj.split(x, «3», 1)",
        "axis 1 of extent 8 doesn't split into 3 equal parts", "slice: x[:, a:b]",
    ),
    (
        "x = tj.cta.load(A[0:4, 0:8])\ny = «x.reshape((5, 5))»",
        "shape (5, 5) has 25 elements; a tile of shape (4, 8) has 32", "same number",
    ),
    (
        "x = tj.cta.load(A[0:16, 0:16])\ny = «x @ x»",
        "float32 operands need a precision", 'tj.matmul(a, b, precision="tf32"), or "tf32x3" or "ieee"',
    ),
    (
        "x = tj.cta.load(A[0:16, 0:16])\ny = «tj.matmul(x, x)»",
        "float32 operands need a precision", 'tj.matmul(a, b, precision="tf32")',
    ),
    (
        "x = tj.cta.load(A[0:16, 0:16])\ny = tj.matmul(x, x, precision=«'tf32x2'»)",
        "precision is one of 'tf32', 'tf32x3', 'ieee'; got 'tf32x2'", "unless both operands are float32",
    ),
    (
        "x = tj.cta.load(A[0:16, 0:16]).astype(tj.float16)\ny = «tj.matmul(x, x, precision='ieee')»",
        "precision='ieee' is for float32 operands; got float16 and float16", "leave precision= out",
    ),
    (
        "x = tj.cta.load(A[0:16, 0:16])\nacc = tj.cta.zeros((16, 16), tj.float64)\nacc += «tj.matmul(x, x, 'ieee')»",
        "float32 by float32 accumulates in float32; got float64", "x.astype(tj.float32)",
    ),
    (
        "x = tj.cta.load(A[0:13, 0:7])\nacc = tj.cta.zeros((13, 9), tj.float32)\nacc += «tj.matmul(x, x, 'tf32x3')»",
        "tj.matmul multiplies (M, K) by (K, N); got (13, 7) by (13, 7): 7 isn't 13", "slice or transpose",
    ),
    (
        "x = tj.cta.load(A[0:4, 0:4])\nacc = tj.cta.zeros((4, 4), tj.float32)\nacc += «tj.matmul(x)»",
        "tj.matmul needs b", "its parameters: a, b, precision",
    ),
    (
        "x = tj.thread.zeros((8, 8), A.dtype)\ny = «tj.matmul(x, x, precision='ieee')»",
        "these are of a thread", "tj.cta.load",
    ),
    (
        "x = tj.cta.load(A[0:13, 0:7])\ny = tj.cta.load(A[0:5, 0:9])\nz = «x @ y»",
        "got (13, 7) by (5, 9): 7 isn't 5", "slice or transpose",
    ),
    (
        "x = tj.cta.load(A[0:13, 0:7]).astype(tj.int32)\ny = «x @ x.T»",
        "@ can't multiply int32 by int32", "float16, bfloat16",
    ),
    (
        "x = tj.cta.load(A[0:8, 0:8]).astype(tj.int8)\ny = «x @ x.astype(tj.float16)»",
        "@ can't multiply int8 by float16", "x.astype",
    ),
    (
        "x = tj.cta.load(A[0:8, 0:8]).astype(tj.float16)\nacc = tj.cta.zeros((8, 7), tj.float32)\n«acc += x @ x»",
        "shapes (8, 7) and (8, 8) don't broadcast", "extents must be equal or 1",
    ),
    ("x = tj.thread.zeros((8, 8), A.dtype)\ny = «x @ x»", "these are of a thread", "tj.cta.load"),
    ("x = tj.cta.load(A[0, 0:8])\ny = «x @ x»", "multiplies matrices, (M, K) by (K, N); got (8,) by (8,)", "[:, None]"),
    (
        "x = tj.cta.load(A[0:4, 0:8])\nif n > 0:\n    x = tj.warp.load(A[0:4, 0:8])\ny = «x» + 1",
        "a tile of a warp where line", "create both on one scope",
    ),
    ("x = tj.cta.indices((8, 8), axis=«n»)", "the axis must be known at compile time", "literal"),
    ("x = tj.warp.load(A[0, 0:64])\nif «x > 1»:\n    A[0, 0] = 1", "a condition must be a scalar", "&"),
    (
        "r = tj.alloc_local(4, A.dtype)\nfor i in range(n):\n    A[0, 0] = r.registers[«i»]",
        "compile-time indices", "static_range",
    ),
    ("tj.cp_async.wait(«-1»)", "n must be at least 0; got -1", "wait"),
    ("tj.cp_async.wait(«n»)", "known at compile time", "literal"),
    ("x = not «tj.warp.copy»", "a condition must be a scalar; this is tj.warp.copy", "the result of a call"),
    ("s = tj.alloc_shared(«(8, n)», tj.float32)", "must be known at compile time", "tj.constexpr"),
    ("s = tj.alloc_shared(«(8, 0)», tj.float32)", "extents must be positive; got (8, 0)", ""),
    ("s = tj.alloc_shared((8, 8), «float»)", "<class 'float'> is not an element type", "tj.float32"),
    ("s = tj.alloc_shared(8, «'x'»)", "element type", "tj.float32"),
    ("s = «tj.alloc_shared((8, 8))»", "tj.alloc_shared needs dtype", "shape, dtype, layout, swizzle"),
    ("tj.warp.copy(B[0:8, 0:8], A[0:8, 0:8], variant=«3»)", "variant= takes str; got 3", ""),
    ("tj.warp.copy(B[0:8, 0:8], A[0:8, 0:8], «filll=3»)", "filll", "fill"),
    ("«tj.warp.copy(A[0, 0:32])»", "tj.warp.copy needs src", "dst, src"),
    ("tj.warp.copy(«A», A)", "has a run-time extent", "tj.spec"),
    ("tj.warp.copy(B[0:8, 0:8], A[0:8, 0:8], «nonsense=1»)", "tj.warp.copy has no parameter nonsense", "require_bits"),
    ("«tj.cta.sqrt(B[0:8, 0:8], A[0:8, 0:4])»", "shapes (8, 8) and (8, 4) don't broadcast", "x[:, None]"),
    ("«tj.cta.add(B[0:8, 0:8], A[0:8, 0:8])»", "tj.cta.add needs b", "dst, a, b"),
    ("x = tj.cta.load(A[0:8, 0:8])\n«v, i» = tj.max(x, axis=1)", "only a tuple can be unpacked", "tj.argmax(x)"),
    ("x = tj.cta.load(A[0:8, 0:8])\ntj.cta.store(B[0:8, 0:8], «1.0», mask=x > 0)", "store takes a local tile",
     "with a mask, store tj.cta.full(shape, value, dtype)"),
    ("tj.cta.store(B[0:64, 0:64], «A[0:64, 0:64]»)", "store takes a local tile", "copy(dst, src)"),
    ("tj.cta.load(B[0:64, 0:64], «A[0:64, 0:64]»)", "a layout must be known", "with copy(dst, src)"),
    ("x = A[0, 0].astype(tj.float8_e4m3fn)\ny = «x + x»", "fp8 is a storage type; cast it first", "astype"),
    ("s = tj.alloc_shared((8, 8), tj.float8_e4m3fn)\n«tj.cta.add(s, s, s)»", "fp8 is a storage type; cast", "astype"),
    ("x = tj.float8_e4m3fn(n)\nA[0, 0] = «x + 1»", "fp8 is a storage type…float32", ""),
    ("for i in range(n):\n    pass\nA[0, 0] = «i»", "after its loop", "copy it"),
    ("if n > 0:\n    x = n\ny = «x»", "x has a value on one path only…line {1}", "before the branch, or on both sides"),
    (
        "for i in range(n):\n    x = n\ny = «x»",
        "x may have no value here…only the loop on line {0} assigns it", "before the loop",
    ),
    ("for i in «tj.static_range(n)»:\n    pass", "must be known at compile time", "tj.constexpr"),
    ("for i in «tj.static_range(100000)»:\n    pass", "unrolls 100000 iterations; the limit is 4096", "range(...)"),
    ("for i in «range(n, 3, 0)»:\n    pass", "range has a step of 0", "other than 0"),
    ("«tj.static_assert(False, 'this')»", "static_assert failed: this", "the values that it tests"),
    ("tj.static_assert(«n > 0»)", "static_assert needs a condition that is known at compile time", "use assert"),
]

LAYOUT_CASES = [
    (
        "s = tj.alloc_shared((8, 8), tj.float32, layout=«S[(8, 8) : (1, 1)]»)",
        "S[(8, 8) : (1, 1)] maps several elements of a buffer of shape (8, 8) to one location", "a different location",
    ),
    (
        "r = tj.alloc_local((32, 8), tj.float32, layout=«S[(32, 8) : (1 @ laneid, 0)]»)",
        "maps several elements of a buffer of shape (32, 8) to one location", "a different location",
    ),
    (
        "s = tj.alloc_shared((32, 8), tj.float32, layout=«LANES»)",
        "has thread axes, but shared memory is common to all threads", "memory strides only",
    ),
    (
        "r = tj.alloc_local((8,), tj.float32, layout=«S[8 : -1]»)",
        "S[8 : -1] reaches m = -7; memory starts at 0", "add an offset: S[8 : -1] + 7 @ m",
    ),
    (
        "s = tj.alloc_shared((4, 8), tj.float32, layout=«S[(4, 8) : (-8, 1)] + 8»)",
        "reaches m = -16; memory starts at 0", "+ 24 @ m",
    ),
    (
        "r = tj.alloc_local((64, 8), tj.float32, layout=«S[(64, 8) : (1 @ laneid, 1)]»)",
        "reaches laneid 63; a warp has 32 threads", "a wider scope",
    ),
    (
        "r = tj.alloc_local((8, 8), tj.float32, layout=«LANES»)",
        "S[(32, 8) : (1 @ laneid, 1)] has 256 elements; shape (8, 8) has 64", "multiply to the shape's size",
    ),
    ("r = tj.alloc_local((8, 4), A.dtype, layout=«S[(8, 8)]»)", "64 elements", "multiply"),
    (
        "s = tj.alloc_shared((8, 8), tj.float32, swizzle=«'128B'»)",
        "shape (8, 8) doesn't divide into atoms of 8 rows by 32 columns", "pad rows to a multiple of 8",
    ),
    (
        "s = tj.alloc_shared((8, 8), tj.float32, swizzle=«'100B'»)",
        "swizzle mode '100B' is not one of 'none', '32B', '64B', '128B'", "choose one of these",
    ),
]

DISPATCH_CASES = [
    (
        "r = tj.alloc_local((8, 8), tj.float32)\n«tj.cta.copy(r, A[0:8, 0:8])»",
        "r has no thread axes, so it is per-thread; a cta has 64 threads", "tj.thread",
    ),
    (
        "r = tj.alloc_local((128, 4), tj.float32, layout=S[(128, 4) : (1 @ tx, 1)])\n"
        "«tj.cta.copy(r, A.tile((128, 4), (0, 0)))»",
        "128 threads own the region of r; the cta has 64", "",
    ),
    ("«tj.warp.copy(B[0:8, 0:8], A[0:8, 0:8], variant='tma')»", "copy has no variant 'tma'", "gmem_smem, reg"),
    (
        "s = tj.alloc_shared((8, 7), tj.float32)\n«tj.warp.copy(s, A[0:8, 0:7], require_bits=128)»",
        "moves 32 bits at a time; require_bits=128: rows of s start every 28 bytes; needs a multiple of 16",
        "require fewer bits",
    ),
    (
        "«tj.warpgroup.copy(B[0:8, 0:8], A[0:8, 0:8])»",
        "needs whole warpgroups of 128 threads; the last warpgroup of a CTA of 64 threads has 64", "multiple of 128",
    ),
]

RESOURCE_CASES = [("«tj.tcgen05.wait_ld()»", "no tensor memory", "sm_100a")]

# a collective in a branch that not all threads of its scope take: the branch is marked
DIVERGENT_CASES = [
    ("if «tj.lane_id() == 0»:\n    tj.warp.copy(B[0:8, 0:8], A[0:8, 0:8])", "warp.copy at .*:{1} needs all .* warp"),
    ("if «tj.lane_id() == 0»:\n    pass\nelse:\n    tj.cta_sync()", "cta_sync at .*:{3} needs all .* cta"),
    ("if «tj.lane_id() % 2»:\n    tj.warp_sync()", "warp_sync at .*:{1} needs all .* warp"),
    ("«for i in range(tj.thread_id()):»\n    tj.cta_sync()", "cta_sync at .*:{1} .* the loop isn't uniform"),
    ("if «tj.thread_id() > 5»:\n    return\ntj.cta_sync()", "cta_sync at .*:{2} .*`return` in the `if`"),
    (
        "for i in range(4):\n    if «tj.thread_id() > i»:\n        break\n    tj.cta_sync()",
        "cta_sync at .*:{3} .*`break` in the `if`",
    ),
    ("while «A[tj.thread_id(), 0] > 0»:\n    tj.cta_sync()", "cta_sync at .*:{1} needs all"),
    ("x = A[tj.thread_id(), 0] > 0\nif «x»:\n    tj.cta_sync()", "cta_sync at .*:{2} needs all"),
    ("if «tj.warp_id() == 0»:\n    tj.cta_sync()", "cta_sync at .*:{1} needs all .* cta"),
    ("if «tj.warp_id() == 0»:\n    tj.warpgroup_sync()", "warpgroup_sync at .*:{1} needs all .* warpgroup"),
    ("if «A[tj.lane_id(), 0] > 0»:\n    x = tj.warp.load(A[0:32, 0:8])", "warp.copy at .*:{1} needs all"),
]

CASES = [
    *((*case, SYNTAX) for case in SYNTAX_CASES),
    *((*case, TYPE) for case in TYPE_CASES),
    *((*case, LAYOUT) for case in LAYOUT_CASES),
    *((*case, DISPATCH) for case in DISPATCH_CASES),
    *((*case, tj.ResourceError) for case in RESOURCE_CASES),
]


def numbered(words, marked):
    """The words with line numbers of the text for {0}, {1}, …, lines of the kernel's body."""
    first = marked.text.split("\n").index("def k(A: tj.Tensor, B: tj.Tensor, n: tj.int32):") + 2
    return re.sub(r"\{(\d)\}", lambda m: str(first + int(m[1])), words)


def check(error, marked, kind, words, hint):
    assert type(error) is kind, error
    parts = (re.escape(part) for part in numbered(words, marked).split("…"))
    assert re.search(".*".join(parts), error.message, re.DOTALL), error
    assert hint in (error.hint or ""), error
    if hint:
        assert str(error).endswith(f"help: {error.hint}")
    points_at(error, marked)


@pytest.mark.parametrize(("body", "words", "hint", "kind"), CASES, ids=[case[0] for case in CASES])
def test_a_refused_kernel_says_what_is_wrong_and_where(body, words, hint, kind):
    error, marked = refused(kernel_text(body), default_arguments())
    check(error, marked, kind, words, hint)


@pytest.mark.parametrize(("body", "words"), DIVERGENT_CASES, ids=[case[0] for case in DIVERGENT_CASES])
def test_a_collective_that_not_all_threads_reach_names_the_branch(body, words):
    error, marked = refused(kernel_text(body), default_arguments())
    pattern = numbered(words, marked)
    assert type(error) is DISPATCH
    assert re.search(pattern, error.message), (pattern, error.message)
    place = "loop" if "the loop" in words else "branch"
    is_after_jump = "`return` in" in error.message or "`break` in" in error.message
    assert (f"move it out of the {place}" in error.hint) != is_after_jump
    points_at(error, marked)


def test_the_same_branches_are_fine_where_all_threads_take_them():
    body = """
if tj.warp_id() == 0:
    tj.warp.copy(B[0:8, 0:8], A[0:8, 0:8])
    tj.warp_sync()
if n > 0 and tj.cta_id(0) % 2 == 0:
    tj.cta_sync()
for i in range(n):
    if A[i, 0] > 0:
        break
    tj.cta_sync()
"""
    namespace, _ = execute(kernel_text(body))
    assert "bar.sync" in namespace["k"].compile(*default_arguments(), target="sm_90a").ptx


def test_a_warp_operation_needs_whole_warps():
    error, marked = refused(
        kernel_text("«tj.warp.copy(B[0:8, 0:8], A[0:8, 0:8])»", options="threads=40"), default_arguments()
    )
    check(error, marked, DISPATCH, "needs whole warps of 32 threads; the last warp of a CTA of 40 threads has 8", "")


@pytest.mark.parametrize(
    ("body", "one", "other"),
    [
        ("if n > 0:\n    x = n\nelse:\n    x = A[0, 0]\ny = «x»", ("int32", 1), ("float32", 3)),
        ("if n > 0:\n    x = tj.int64(n)\nelse:\n    x = n\ny = «x»", ("int64", 1), ("int32", 3)),
        ("x = n\nfor i in range(n):\n    x = «x» + A[0, 0]", ("int32", 0), ("float32", 2)),
    ],
)
def test_paths_that_disagree_name_both_lines(body, one, other):
    error, marked = refused(kernel_text(body), default_arguments())
    assert type(error) is TYPE
    first = marked.text.split("\n").index("def k(A: tj.Tensor, B: tj.Tensor, n: tj.int32):") + 2
    for dtype, line in (one, other):
        assert re.search(rf"{dtype}\b.*line {first + line}\b|line {first + line}\b.*{dtype}", error.message), error
    assert "convert one of them" in error.hint


def test_recursion_shows_both_calls():
    error, marked = refused(kernel_text("x = recursive(n)"), default_arguments())
    check_text = str(error)
    assert type(error) is TYPE and "recursive calls itself" in error.message
    assert "return recursive(x)\n" in check_text and "called from" in check_text and "x = recursive(n)" in check_text
    assert error.span.caller.line == marked.text.split("\n").index("    x = recursive(n)") + 1


def test_shared_memory_that_does_not_fit_names_the_largest_buffers():
    body = """
s = «tj.alloc_shared((256, 256), tj.float32)»
t = tj.alloc_shared((16, 16), tj.float32)
u = tj.alloc_shared((16, 32), tj.float32)
tj.cta.copy(s[0:16, 0:16], A[0:16, 0:16])
tj.cta.copy(t, A[0:16, 0:16])
tj.cta.copy(u, A[0:16, 0:32])
"""
    error, marked = refused(kernel_text(body), default_arguments())
    words = "k needs 265,216 bytes of shared memory; sm_90a has 232,448 for a CTA. Largest: s 262,144, u 2,048, t 1,024"
    check(error, marked, tj.ResourceError, words, "smaller tiles")


def test_tensor_memory_needs_a_target_that_has_it():
    error, marked = refused(kernel_text("t = «tj.alloc_tmem((128, 32), tj.float32)»"), default_arguments())
    check(error, marked, tj.ResourceError, "sm_90a has no tensor memory", "sm_100a")


def test_carets_count_display_columns():
    error, _ = refused(kernel_text("print('宽', [1])"), default_arguments())
    line, carets = str(error).split("\n")[2:4]
    assert line == "    print('宽', [1])"
    assert carets == "    " + " " * 12 + "^^^"


UNROLLED = """
for i in tj.static_range(4096):
    for j in tj.static_range(4096):
        for k in «tj.static_range(4096)»:
            pass
"""


def test_unrolled_loops_within_each_other_have_one_limit():
    error, marked = refused(kernel_text(UNROLLED), default_arguments())
    check(error, marked, TYPE, "nested unrolled loops have more than 16,384 iterations", "range(...)")


def test_unrolled_loops_one_after_the_other_are_not_counted_together():
    names, _ = execute("import tilejit as tj\n" + kernel_text("for j in tj.static_range(4096):\n    pass\n" * 5, "A"))
    assert names["k"].compile(tj.spec((1,), tj.float32)).ptx


ROWS = "x = tj.alloc_local((64, 8), tj.float32, layout=S[(64, 8) : (1 @ tx, 1)])\ntj.cta.fill(x, 1)\n"
TURNED = "y = tj.alloc_local((64, 8), tj.float32, layout=S[(8, 8, 8) : (1 @ tx, 8 @ tx, 1)])\ntj.cta.fill(y, 1)\n"
PRIVATE = "r = tj.alloc_local((4, 8), tj.float32)\n"
# what two tiles are made of, the operation that refuses them, and the same one on {} when the help was followed
DIFFERENT_LAYOUTS = [
    (ROWS + TURNED, "tj.cta.add(x, x, y)", "tj.cta.add(x, x, {})"),
    (ROWS + TURNED, "tj.cta.exp(x, y)", "tj.cta.exp(x, {})"),
    (ROWS + TURNED + "h = tj.alloc_local((64, 8), tj.float16, layout=x.layout)\n", "tj.cta.cast(h, y)",
     "tj.cta.cast(h, {})"),
]


@pytest.mark.parametrize(("tiles", "refusing", "mended"), DIFFERENT_LAYOUTS)
def test_what_the_help_says_of_different_layouts_can_be_done(tiles, refusing, mended):
    error, _ = refused(kernel_text(tiles + refusing), default_arguments())
    assert type(error) is DISPATCH and "over threads differently" in error.message
    allocation = re.fullmatch(r"copy y to a tile with .*'s layout first: (t = .*), and then copy\(t, y\)", error.hint)
    copied = f"{allocation[1]}\ntj.cta.copy(t, y)\n"
    namespace, _ = execute(kernel_text(tiles + copied + mended.format("t")))
    namespace["k"].compile(*default_arguments(), target="sm_90a")


def test_what_the_help_says_of_a_number_of_each_thread_can_be_done():
    error, _ = refused(kernel_text("x = A[0, tj.thread_id() % 4] + 1\ny = tj.sum(x)"), default_arguments())
    written = r"for a scalar x per thread write (r = .*\)), (r\.registers\[0\] = x), and (tj\.sum\(r\))$"
    steps = re.search(written, error.hint)
    assert steps is not None
    made, given, summed = steps.groups()
    names, _ = execute(kernel_text(f"x = A[0, tj.thread_id() % 4] + 1\n{made}\n{given}\nA[0, 0] = {summed}"))
    names["k"].compile(*default_arguments(), target="sm_90a")


@pytest.mark.parametrize("scope", ["cta", "thread"])
@pytest.mark.parametrize("spread", ["tj.cta.load(A[0:4, 0:8])", "tj.cta.zeros((4, 8), tj.float32)"])
def test_a_tile_of_each_thread_beside_one_of_many_isn_t_sent_from_scope_to_scope(scope, spread):
    error, marked = refused(
        kernel_text(f"{PRIVATE}y = {spread}\n«tj.{scope}.copy(r, y)»"), default_arguments()
    )
    words = f"{scope}.copy can't combine r, a tile of a thread, and y, a tile of a cta"
    check(error, marked, TYPE, words, "allocate r with a layout= that has thread axes")
    through = "s = tj.alloc_shared((4, 8), tj.float32)\ntj.cta.store(s, y)\ntj.cta_sync()\nr = tj.thread.load(s)"
    namespace, _ = execute(kernel_text(f"y = {spread}\n{through}"))
    namespace["k"].compile(*default_arguments(), target="sm_90a")
