"""The knowledge pack's headers, which a source may include as ``<ptxgym/hopper.cuh>`` or ``<ptxgym/blackwell.cuh>``."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path


@functools.cache
def header_folder() -> Path | None:
    """The folder to search for ``<ptxgym/…>``, None where the pack is not installed."""
    spec = importlib.util.find_spec("knowledge")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        include = Path(folder).resolve() / "include"
        if (include / "ptxgym").is_dir():
            return include
    return None


@functools.cache
def header_digest() -> str:
    """A SHA-256 over all headers: a Program built with others is another Program."""
    folder = header_folder()
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.cuh")) if folder else []:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
