"""Parser of PTX modules. Unknown syntax is an error that shows the PTX line."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod

from .ptx import (
    TYPE_BYTES,
    Cursor,
    KernelText,
    LaunchBounds,
    Module,
    PtxParam,
    Source,
    SymbolAddress,
    Variable,
    parse_number,
)

FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"[^\n]*')
VARIABLE = re.compile(
    r"(?P<external>\.extern\s+|\.visible\s+|\.weak\s+|\.common\s+)?\.(?P<space>global|const|shared|local|param)\s*"
    r"(?:\.align\s+(?P<align>\d+)\s*)?(?:\.(?P<vector>v[248])\s*)?\.(?P<type>\w+)\s+"
    r"(?P<name>[%\w$]+)\s*(?P<dims>(?:\[\s*\d*\s*\]\s*)*)(?:=\s*(?P<init>\{[^}]*\}|[^;{]+?)\s*)?;"
)
_ENTRY = re.compile(r"(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)\{")
_FUNC = re.compile(r"(?:\.(?:visible|extern|weak)\s+)*\.func\b([^;{]*)([;{])")
_DECLARATION = re.compile(
    r"\s*(?:\((?P<results>[^)]*)\))?\s*(?:\.\w+\s+)*(?P<name>[\w$]+)\s*(?:\((?P<params>[^)]*)\))?"
)
_SECTION = re.compile(r"\.section\s+[.\w]+\s*\{[^}]*\}")
_TUNING = re.compile(
    r"\s+|\.(?:maxntid|reqntid|reqnctapercluster)\s+\d+(?:\s*,\s*\d+)*"
    r"|\.(?:minnctapersm|maxnreg|maxclusterrank)\s+\d+|\.explicitcluster|\.noreturn"
    r'|\.pragma\s+"[^"]*"\s*;?'
)
_BOUND = re.compile(r"\.(maxntid|reqntid|maxnreg|minnctapersm|reqnctapercluster)\s+(\d+(?:\s*,\s*\d+)*)")
_LINE_DIRECTIVE = re.compile(r"\.(?:version|target|address_size|pragma)\b[^\n]*")
_PARAM = re.compile(
    r"\.param\s*(?:\.align\s+(\d+)\s*)?\.(\w+)\s+"
    r"(?:\.ptr\s*(?:\.(?:global|const|shared|local)\s*)?(?:\.align\s+\d+\s*)?)?([\w$%]+)\s*(?:\[\s*(\d+)\s*\])?"
)
_ADDRESS = re.compile(r"(?:(generic)\(\s*)?([A-Za-z_$%][\w$]*)\s*(?(1)\))\s*(?:([+-])\s*(\d+))?")


@lru_cache(maxsize=64)
def parse(text: str) -> Module:
    """Parse a module, except kernels' and functions' bodies. raises: UnsupportedInstructionError for unknown syntax."""
    return _Parser(Source(text)).parse()


class _Parser(Cursor):
    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.module = Module(source)

    def parse(self) -> Module:
        while self.skip() < len(self.code):
            if not self.item():
                raise self.refusal("this directive is malformed or not supported", self.pos)
        return self.module

    def item(self) -> bool:
        if match := self.take(FILE):
            self.module.files[int(match[1])] = match[2]
        elif match := self.take(_ENTRY):
            self.entry(match)
        elif match := self.take(VARIABLE):
            parsed = variable(self.source, match)
            self.module.variables[parsed.name] = parsed
        elif match := self.take(_FUNC):
            self.device_function(match)
        else:
            return bool(self.take(_LINE_DIRECTIVE) or self.take(_SECTION))
        return True

    def device_function(self, match: re.Match[str]) -> None:
        declared = _DECLARATION.match(match[1])
        name = declared["name"] if declared else ""
        has_body = match[2] == "{"
        self.module.functions[name] = has_body or self.module.functions.get(name, False)
        if not has_body:
            return
        begin = self.pos
        self.pos = self.source.closing_brace(begin)
        if declared and ".reg" not in match[1]:
            results, params = (self.params(declared[x] or "", match.start()) for x in ("results", "params"))
            self.module.texts[name] = KernelText(name, params, begin, self.pos, results=results)

    def entry(self, match: re.Match[str]) -> None:
        if _TUNING.sub("", match[3]):
            raise self.refusal(f"unknown directive {_TUNING.sub('', match[3])!r}", match.start(3))
        params = self.params(match[2] or "", match.start())
        begin = self.pos
        self.pos = self.source.closing_brace(begin)
        self.module.kernels[match[1]] = KernelText(match[1], params, begin, self.pos, bounds_of(match[3]))

    def params(self, text: str, pos: int) -> tuple[PtxParam, ...]:
        params: list[PtxParam] = []
        offset = 0
        for item in (p.strip() for p in text.split(",")):
            if not item:
                continue
            match = _PARAM.fullmatch(item)
            if not match or match[2] not in TYPE_BYTES:
                raise self.refusal(f"cannot parse parameter {item!r}", pos)
            size = TYPE_BYTES[match[2]]
            align = int(match[1] or size)
            size *= int(match[4] or 1)
            offset = -(-offset // align) * align
            params.append(PtxParam(match[3], offset, size, align))
            offset += size
        return tuple(params)


def bounds_of(directives: str) -> LaunchBounds:
    extents = {name: [int(x) for x in numbers.split(",")] for name, numbers in _BOUND.findall(directives)}
    bounds = {name: prod(values) for name, values in extents.items()}
    threads = bounds.get("reqntid", bounds.get("maxntid", 0))
    x, y, z = (*extents.get("reqnctapercluster", ()), 1, 1, 1)[:3]
    cluster = (x, y, z) if "reqnctapercluster" in extents else None
    return LaunchBounds(threads, bounds.get("maxnreg", 0), bounds.get("minnctapersm", 0), cluster)


def variable(source: Source, match: re.Match[str]) -> Variable:
    """Return the variable that a match of VARIABLE declares; raise UnsupportedInstructionError if it is malformed."""
    type_name = match["type"]
    if type_name not in TYPE_BYTES:
        raise source.refusal(f"unknown type .{type_name}", source.line_at(match.start()))
    unit = TYPE_BYTES[type_name] * int((match["vector"] or "v1")[1:])
    count = 1
    for dim in re.findall(r"\[\s*(\d*)\s*\]", match["dims"]):
        count *= int(dim or 0)
    symbols: list[SymbolAddress] = []
    data = _initial(source, match, unit * count, symbols) if match["init"] else None
    external = (match["external"] or "").startswith(".extern")
    align = int(match["align"] or unit)
    line = source.line_at(match.start())
    return Variable(match["name"], match["space"], unit * count, align, data, external, tuple(symbols), line)


def _initial(source: Source, match: re.Match[str], size: int, symbols: list[SymbolAddress]) -> bytes:
    """Return a variable's initial bytes, with 0 in place of addresses, and append the addresses to `symbols`."""
    type_name = match["type"]
    width = TYPE_BYTES[type_name]
    out = bytearray(size)
    for i, item in enumerate(x.strip() for x in match["init"].strip("{} \n\t").split(",")):
        if not item:
            continue
        symbol = _ADDRESS.fullmatch(item)
        if symbol:
            offset = int((symbol[3] or "") + (symbol[4] or "0"))
            symbols.append(SymbolAddress(i * width, width, symbol[2], offset, symbol[1] is not None))
            continue
        try:
            value = parse_number(item, type_name)
        except ValueError:
            line = source.line_at(match.start())
            raise source.refusal(f"cannot parse initial value {item!r}", line) from None
        out[i * width : (i + 1) * width] = value.to_bytes(width, "little")
    return bytes(out)
