"""One self-contained source from a kernel that includes the headers of this pack."""

from __future__ import annotations

import re

from knowledge.headers import header, included

_INCLUDE = re.compile(r"^#include <ptxgym/([\w.]+)>[ \t]*\n", re.MULTILINE)


def amalgamate(source: str) -> str:
    """Put the headers that a source includes into it, for a judge or a compiler that does not have them.

    Raises:
        FileNotFoundError: The source includes a header that the pack does not have.
    """
    done: set[str] = set()

    def text_of(match: re.Match[str]) -> str:
        fresh = [name for name in included(match[1]) if name not in done]
        done.update(fresh)
        texts = (re.sub(r'^#(pragma once|include "[^"]*")\n', "", header(name), flags=re.MULTILINE) for name in fresh)
        return "".join(texts)

    return _INCLUDE.sub(text_of, source)
