"""A submission before it is compiled: is it a source at all, and what in it deserves a second look."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_SOURCE_BYTES = 1 << 20
"""Longer submissions are refused unread; the longest kernels we know are under 200 KB."""

_FENCE = re.compile(r"\A\s*```[\w+-]*[ \t]*\r?\n(.*?)\r?\n?```\s*\Z", re.DOTALL)
# Sources are hostile: no pattern here may look further ahead than a line's end or a few words.
_OUTSIDE_INCLUDE = re.compile(r"^[ \t]*#[ \t]*(?:include|embed)[^\n\"<]*[\"<][ \t]*(?:/|[^\">\n]*\.\./)", re.MULTILINE)
_BINARY_INCLUDE = re.compile(r"\.incbin\b")

# Words that are worth a reader's eye. They never decide: an honest kernel may use any of them.
_FLAGS = {
    "mentions_library": re.compile(r"cublas|cudnn|cutlass|cute::|thrust::|\bcub::", re.IGNORECASE),
    "loads_libraries": re.compile(r"\bdl(?:m?open|sym)\b"),
    "reads_clocks": re.compile(r"\bclock(?:64)?\s*\(|%globaltimer|%clock|clock_gettime|gettimeofday"),
    "starts_threads": re.compile(r"std::thread|std::async|pthread_create"),
    "touches_files": re.compile(r"\b(?:f?open|ofstream|ifstream|mmap)\s*\("),
    "reads_environment": re.compile(r"\bgetenv\b|\benviron\b|/proc/"),
    "captures_graphs": re.compile(r"cudaGraph|cudaStreamBeginCapture"),
    "host_state": re.compile(
        r"\bstatic\b(?![^;{]{0,80}\b(?:constexpr|inline|__device__|__global__)\b)[^;({]{0,80}(?:=|;)"
    ),
}


@dataclass(frozen=True, slots=True)
class Source:
    """A submission that may be compiled."""

    text: str
    notes: tuple[str, ...] = ()
    """What was changed on the way in, in words."""

    def flags(self) -> tuple[str, ...]:
        """Names of what is merely suspicious; for ``info["flags"]``, never for a verdict."""
        return tuple(name for name, pattern in _FLAGS.items() if pattern.search(self.text))


class SourceRefusedError(ValueError):
    """The submission is no source. The first argument is a sentence for its writer."""


def read_source(action: object) -> Source:
    """Check a submission and take a Markdown fence off it.

    Raises:
        SourceRefusedError: It is not a string, empty, too long, not valid Unicode, has NUL bytes, or includes a file
            by a path out of its folder.
    """
    if not isinstance(action, str):
        raise SourceRefusedError(f"A source is a str; this is {type(action).__name__}.")
    if len(action) > MAX_SOURCE_BYTES or len(encoded := _encode(action)) > MAX_SOURCE_BYTES:
        raise SourceRefusedError(f"The source has over {MAX_SOURCE_BYTES:,} bytes.")
    if b"\0" in encoded:
        raise SourceRefusedError("The source contains a NUL byte.")
    fenced = _FENCE.match(action)
    text = fenced[1] if fenced else action
    if not text.strip():
        raise SourceRefusedError("The source is empty.")
    if _OUTSIDE_INCLUDE.search(text) or _BINARY_INCLUDE.search(text):
        raise SourceRefusedError(
            "The source includes a file by an absolute or parent path, or with .incbin. Only the CUDA toolkit's "
            "headers and ptxgym's, by their names, may be included."
        )
    return Source(text, ("A Markdown fence around the source was removed.",) if fenced else ())


def _encode(action: str) -> bytes:
    try:
        return action.encode("utf-8")
    except UnicodeEncodeError:
        raise SourceRefusedError("The source contains lone surrogates, which no UTF-8 file can hold.") from None
