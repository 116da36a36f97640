"""Rewrites of a passing kernel that break one contract each.

A mutation looks for an idiom of inline PTX and yields one source per place where it applies. Whether the result is
really broken, and how that shows, is for the simulator to say: see :mod:`baselines.fixit.synthesize`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from baselines.fixit.idioms import Call, SourceMap
from baselines.fixit.records import content_id
from baselines.fixit.sources import normalise

Rewrite = Callable[[SourceMap], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A way to break a contract."""

    name: str
    contracts: tuple[str, ...]
    """Numbers of the contracts in ``knowledge/`` that it breaks, the likeliest first."""
    codes: tuple[str, ...]
    """Findings that it should cause; empty when only the numbers show it."""
    rewrite: Rewrite


@dataclass(frozen=True, slots=True)
class Mutant:
    """A passing kernel with one rewrite."""

    mutation: Mutation
    source: str
    id: str
    """Of the normalised source."""


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a source, each code once, in the order of the table."""
    map_, seen, found = SourceMap(source), {normalise(source)}, []
    for mutation in MUTATIONS:
        for text in mutation.rewrite(map_):
            code = normalise(text)
            if code not in seen:
                seen.add(code)
                found.append(Mutant(mutation, text, content_id(code)))
    return found


def _drop(*idioms: str) -> Rewrite:
    """Leave out a statement that does nothing but this."""

    def rewrite(map_: SourceMap) -> Iterator[str]:
        for idiom in idioms:
            for call in map_.calls(idiom):
                yield from _without(map_, call)

    return rewrite


def _drop_calls(*names: str) -> Rewrite:
    def rewrite(map_: SourceMap) -> Iterator[str]:
        for call in map_.calls_of(list(names)):
            yield from _without(map_, call)

    return rewrite


def _replace_calls(idiom: str, new: str) -> Rewrite:
    """Put another statement in the place of a call."""

    def rewrite(map_: SourceMap) -> Iterator[str]:
        for call in map_.calls(idiom):
            yield _spliced(map_.source, call.start, call.end, new)

    return rewrite


def _argument(idiom: str, position: int, change: Callable[[str], str | None]) -> Rewrite:
    """Change one argument of every call; ``change`` returns None where it does not apply."""

    def rewrite(map_: SourceMap) -> Iterator[str]:
        for call in map_.calls(idiom):
            if len(call.arguments) > 1 and -len(call.arguments) <= position < len(call.arguments):
                start, end = call.arguments[position]
                new = change(map_.source[start:end])
                if new is not None:
                    yield _spliced(map_.source, start, end, new)

    return rewrite


def _pending(idiom: str) -> Rewrite:
    """Wait for one group less than needed: ``wait<0>`` to ``wait<1>``."""

    def rewrite(map_: SourceMap) -> Iterator[str]:
        for call in map_.calls(idiom):
            if call.template and (number := map_.source[slice(*call.template)].strip()).isdecimal():
                yield _spliced(map_.source, *call.template, str(int(number) + 1))

    return rewrite


def _text(pattern: str, new: str | Callable[[re.Match[str]], str]) -> Rewrite:
    """Replace each match in the code, one at a time; comments and literals are not touched."""
    compiled = re.compile(pattern)

    def rewrite(map_: SourceMap) -> Iterator[str]:
        for found in compiled.finditer(map_.code):
            text = found.expand(new) if isinstance(new, str) else new(found)
            yield _spliced(map_.source, found.start(), found.end(), text)

    return rewrite


def _swap_coordinates(map_: SourceMap) -> Iterator[str]:
    """Give a tensor copy its last two coordinates the other way round."""
    for call in map_.calls("bulk.load"):
        if len(call.arguments) >= 5:
            (a, b), (c, d) = call.arguments[-2:]
            source = map_.source
            yield source[:a] + source[c:d] + source[b:c] + source[a:b] + source[d:]


def _no_next_step(map_: SourceMap) -> Iterator[str]:
    """Multiply the first k-step's tile again and again: ``a + i * NEXT`` to ``a``."""
    for idiom in ("wgmma.mma", "tcgen05.mma"):
        for call in map_.calls(idiom):
            for start, end in call.arguments:
                found = re.fullmatch(r"(\w+)\s*\+\s*\S.*", map_.source[start:end], re.DOTALL)
                if found and not found[1].isdecimal() and found[1] not in ("k", "i"):
                    yield _spliced(map_.source, start, end, found[1])


def _other_parity(parity: str) -> str:
    """The same with the other parity, in the shortest form."""
    if found := re.fullmatch(r"(.*\S)\s*\^\s*1", parity, re.DOTALL):
        return found[1]
    if parity in ("0", "1"):
        return str(1 - int(parity))
    return f"{parity} ^ 1" if re.fullmatch(r"[\w.\[\]>-]+", parity) else f"({parity}) ^ 1"


def _plus(amount: int) -> Callable[[str], str]:
    def change(text: str) -> str:
        if text.isdecimal():
            return str(int(text) + amount)
        return f"{text} + {amount}" if amount > 0 else f"{text} - {-amount}"

    return change


def _fewer(text: str) -> str | None:
    """One less, where one is left."""
    if text.isdecimal():
        return str(int(text) - 1) if int(text) > 1 else None
    return f"{text} - 1"


def _half(text: str) -> str:
    return f"{text} / 2" if re.fullmatch(r"[\w.:]+", text) else f"({text}) / 2"


def _without(map_: SourceMap, call: Call) -> Iterator[str]:
    """The source without the statement of a call, and without what the line says about it."""
    statement = map_.statement(call)
    if statement is None:
        return
    source, (start, end) = map_.source, statement
    line, after = source.rfind("\n", 0, start) + 1, source.find("\n", end)
    after = len(source) if after < 0 else after
    rest = map_.code[end:after]
    if not rest.strip():  # its comment goes as well: it would tell what is missing
        end = after
        if not source[line:start].strip():
            start, end = line, min(len(source), after + 1)
    yield source[:start].rstrip(" ") * (start != line) + source[:start] * (start == line) + source[end:]


def _spliced(source: str, start: int, end: int, new: str) -> str:
    return source[:start] + new + source[end:]


_EARLY = ("read-before-arrival", "stage-reuse", "deadlock")

MUTATIONS: tuple[Mutation, ...] = (
    # -- mbarriers
    Mutation("drop-wait", ("14", "15", "16"), (*_EARLY, "shared-race"), _drop("mbarrier.wait")),
    Mutation("other-parity", ("14",), (*_EARLY, "phase-slip"), _argument("mbarrier.wait", 1, _other_parity)),
    Mutation("bytes-too-many", ("16",), ("deadlock",), _argument("mbarrier.expect_tx", -1, _plus(16))),
    Mutation("bytes-too-few", ("16",), (*_EARLY, "tx-count"), _argument("mbarrier.expect_tx", -1, _half)),
    Mutation("drop-expect-tx", ("16",), ("deadlock", "tx-count"), _drop("mbarrier.expect_tx")),
    Mutation("arrivals-too-many", ("15",), ("deadlock",), _argument("mbarrier.init", 1, _plus(1))),
    Mutation("arrivals-too-few", ("15",), ("mbarrier-over-arrival", *_EARLY), _argument("mbarrier.init", 1, _fewer)),
    Mutation("drop-arrive", ("15",), ("deadlock",), _drop("mbarrier.arrive")),
    Mutation("drop-init", ("11",), ("mbarrier-uninitialised", "mbarrier-init-race"), _drop("mbarrier.init")),
    Mutation("drop-init-fence", ("11",), ("mbarrier-init-race",), _drop("fence.mbarrier_init")),
    # -- proxies, copies
    Mutation("drop-proxy-fence", ("12",), ("missing-proxy-fence",), _drop("fence.proxy.async")),
    Mutation("drop-bulk-commit", ("25",), ("bulk-not-waited", "store-source"), _drop("bulk.commit")),
    Mutation("drop-bulk-wait", ("25",), ("bulk-not-waited", "store-source", "shared-race"), _drop("bulk.wait")),
    Mutation("bulk-wait-too-little", ("25",), ("bulk-not-waited", "store-source"), _pending("bulk.wait")),
    Mutation("swapped-coordinates", ("23",), (), _swap_coordinates),
    # -- wgmma and tcgen05
    Mutation("drop-wgmma-fence", ("4",), ("wgmma-fence",), _drop("wgmma.fence")),
    Mutation("drop-wgmma-commit", ("5",), ("wgmma-in-flight", "wgmma-not-waited", *_EARLY), _drop("wgmma.commit")),
    Mutation("drop-wgmma-wait", ("5", "15"), ("wgmma-in-flight", "wgmma-not-waited", *_EARLY), _drop("wgmma.wait")),
    Mutation(
        "wgmma-wait-too-little", ("5", "15"), ("wgmma-in-flight", "wgmma-not-waited", *_EARLY), _pending("wgmma.wait")
    ),
    Mutation("same-k-step", ("3",), (), _no_next_step),
    Mutation("drop-tcgen05-commit", ("T7",), ("deadlock", "tmem-in-flight"), _drop("tcgen05.commit")),
    Mutation("drop-tcgen05-fence", ("T4",), ("tcgen05-fence",), _drop("tcgen05.fence")),
    Mutation(
        "drop-tcgen05-wait",
        ("T5",),
        ("tmem-in-flight", "tmem-uninitialised", "tcgen05-wait-ld", "tcgen05-wait-st"),
        _drop("tcgen05.wait"),
    ),
    Mutation("drop-tmem-dealloc", ("T1",), ("tmem-leak",), _drop("tcgen05.dealloc")),
    # -- descriptors and swizzles
    Mutation(
        "descriptor-stride", ("1",), ("descriptor", "descriptor-alignment"), _text(r"\b1024( / 16|\s*>>\s*4)", r"512\1")
    ),
    Mutation("descriptor-swizzle", ("1",), ("swizzle-mismatch",), _text(r"\b1(\)?\s*<<\s*62)\b", r"2\1")),
    Mutation("header-swizzle", ("1",), ("swizzle-mismatch",), _text(r"\bSwizzle::B128\b", "Swizzle::B64")),
    Mutation(
        "map-swizzle", ("1", "22"), ("swizzle-mismatch",), _text(r"\b(CU_TENSOR_MAP_SWIZZLE_)128B\b", r"\g<1>64B")
    ),
    # -- barriers and bounds
    Mutation(
        "drop-block-barrier",
        ("11", "12"),
        ("shared-race", "mbarrier-init-race", "mbarrier-uninitialised", "uninitialised-shared", "cp-async-in-flight"),
        _drop_calls("__syncthreads", "__syncwarp"),
    ),
    Mutation(
        "drop-named-barrier", ("12", "28"), ("shared-race", "deadlock", "missing-proxy-fence"), _drop("named.barrier")
    ),
    Mutation(
        "block-for-cluster-barrier",
        ("20", "19"),
        ("mbarrier-init-race", "mbarrier-uninitialised", "remote-after-exit"),
        _replace_calls("cluster.barrier", "__syncthreads()"),
    ),
    Mutation(
        "drop-cluster-barrier",
        ("19", "20"),
        ("remote-after-exit", "mbarrier-init-race", "mbarrier-uninitialised"),
        _drop("cluster.barrier"),
    ),
    Mutation("drop-cp-async-wait", (), ("cp-async-in-flight",), _drop("cp.async.wait")),
    Mutation("drop-cp-async-commit", (), ("cp-async-in-flight",), _drop("cp.async.commit")),
    Mutation(
        "one-step-more",
        (),
        ("out-of-bounds", "deadlock", *_EARLY),
        _text(r"(\bfor\s*\([^;()]*;[^;()<]*)<(?![=<])", r"\1<="),
    ),
    Mutation(
        "one-step-less", (), ("deadlock", *_EARLY), _text(r"(\bfor\s*\([^;()]*;\s*)(\w+)\s*<(?![=<])", r"\1\2 + 1 <")
    ),
)
"""All mutations. A contract that only hardware shows has none."""
