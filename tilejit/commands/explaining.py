"""`python -m tilejit explain` and `compile`: kernels of a file, compiled, as explanations, as text and as files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..dataclass import replace
from ..errors import LaunchError
from ..target import target as find_target
from .kernel_files import Remarked, compiled_for, compiled_variants, kernels_of, one_kernel
from .schema import VERSION, ExplainedKernel, ExplanationDocument, KernelText, OperationData, TextDocument

if TYPE_CHECKING:
    from ..compiled import Compiled
    from ..explanation import Explanation, VerdictRow


def compile_ahead(
    place: str, specs: Sequence[str], outputs: Sequence[str], target: str | None, threads: int | None
) -> Iterator[str]:
    """Compile one kernel of a file, save it to each of `outputs`, and yield the paths of the files written.

    place: `FILE` or `FILE::KERNEL`. specs: one `NAME=VALUE` per argument.
    """
    file, _, wanted = place.partition("::")
    chosen = find_target(target) if target else None
    compiled, remarks = compiled_for(one_kernel(file, wanted, kernels_of(file, run=False)), specs, chosen, threads)
    for remark in remarks[:1]:
        # not to standard output, which lists only the files
        print(f"{compiled.name}: {remark}", file=sys.stderr)
    for output in outputs:
        yield from map(str, compiled.save(output))


def explain(
    place: str, target: str | None, text: str | None, run: bool, specs: Sequence[str], threads: int | None,
    shows_all: bool, style: str, version: str,
) -> Iterator[str]:
    """Yield explanations of a file's kernels, or of one of them, or another text of each, such as its PTX.

    A kernel is compiled for the arguments in `specs`, else for its defaults if each parameter has one, such as
    a `tj.spec`, else for each signature that the file compiled it for, for example by launching it.

    place: `FILE` or `FILE::KERNEL`. text: an attribute of `Compiled`, or None for the explanation.
    run: run the file as a program, with the `__name__` "__main__", rather than as a module.
    specs: one `NAME=VALUE` per argument; these and `threads` require a single kernel.
    shows_all: also list the variants for operands in other memory spaces.
    style: "text" or "json". version: that of tilejit.
    """
    variants = _variants(place, target, run, specs, threads)
    if style == "text":
        shown = [
            str(_explanation(remarked, shows_all) if text is None else getattr(remarked[0], text))
            for remarked in variants
        ]
        yield "\n\n".join(shown)
    elif text is not None:
        texts: TextDocument = {
            "version": VERSION, "tilejit": version, "kernels": [_text(compiled, text) for compiled, _ in variants],
        }
        yield json.dumps(texts, indent=2)
    else:
        explained: ExplanationDocument = {
            "version": VERSION, "tilejit": version,
            "kernels": [explained_kernel(_explanation(remarked, shows_all)) for remarked in variants],
        }
        yield json.dumps(explained, indent=2)


def _variants(
    place: str, target: str | None, run: bool, specs: Sequence[str], threads: int | None
) -> list[Remarked]:
    file, _, wanted = place.partition("::")
    made_for = find_target(target) if target else None
    kernels = kernels_of(file, run)
    if specs or threads is not None:
        return [compiled_for(one_kernel(file, wanted, kernels), specs, made_for, threads)]
    chosen = [one_kernel(file, wanted, kernels)] if wanted else list(kernels.values())
    if not chosen:
        raise LaunchError(f"{file} has no kernels", hint="decorate a function with @tj.kernel")
    variants = [remarked for kernel in chosen for remarked in compiled_variants(kernel, made_for)]
    if not variants:
        way = "launch the kernel in the file"
        if not run:
            way = "pass --run to run the file as a program and explain what it launches"
        raise LaunchError(
            f"the arguments of {' and '.join(k.name for k in chosen)} in {file} are unknown",
            hint=f"pass --spec 'A=float32[32, 8]', declare `A: tj.Tensor = tj.spec((32, 8), tj.float32)`, or {way}",
        )
    return variants


def _explanation(remarked: Remarked, shows_all: bool) -> Explanation:
    compiled, remarks = remarked
    explanation = compiled.explain()
    return replace(explanation, remarks=(*explanation.remarks, *remarks), shows_all=shows_all)


def _text(compiled: Compiled, kind: str) -> KernelText:
    return {
        "kernel": compiled.name, "target": str(compiled.target), "threads": compiled.threads,
        "shared_bytes": compiled.shared_bytes, "kind": kind, "text": getattr(compiled, kind),
    }


def explained_kernel(explanation: Explanation) -> ExplainedKernel:
    """Return an explanation as data, with the facts that its text has."""
    return {
        "kernel": explanation.kernel, "target": str(explanation.target),
        "operations": [_operation(row, explanation.shows_all) for row in explanation.rows],
        "elements": [
            {"line": each.line, "kind": each.kind, "place": each.place, "bits": each.bits, "times": each.times}
            for each in explanation.elements
        ],
        "tensor_maps": [
            {
                "of": spec.of, "dtype": str(spec.dtype), "axes": list(spec.axes), "box": list(spec.box),
                "swizzle": spec.swizzle,
            }
            for spec in explanation.maps
        ],
        "inserted": [
            {"line": each.line, "instruction": each.instruction, "reason": each.reason, "times": each.times}
            for each in explanation.inserted
        ],
        "notes": list(explanation.notes),
    }


def _operation(row: VerdictRow, shows_all: bool) -> OperationData:
    return {
        "line": row.line, "source": row.source, "operation": row.operation, "variant": row.variant,
        "width": row.width, "rounds": row.rounds,
        "instructions": [{"instruction": name, "times": times} for name, times in row.instructions],
        "by_elements": row.cuts, "not_wider": row.limit, "uncoalesced": row.sectors,
        "declined": [
            {"variant": variant, "reasons": list(reasons)}
            for variant, reasons in row.declines
            if shows_all or variant not in row.elsewhere
        ],
    }
