"""A folder of finished work, by content: survives crashes and parallel use, and stays under a size."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

R = TypeVar("R", bound=BaseModel)

_DEFAULT_LIMIT = 20 << 30
_PRUNE_EVERY = 64


def cache_root() -> Path:
    """``$PTXGYM_CACHE``, or ``ptxgym`` in the user's cache folder."""
    if root := os.environ.get("PTXGYM_CACHE"):
        return Path(root)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ptxgym"


def content_key(**parts: object) -> str:
    """A SHA-256 over named parts, which must be JSON-able."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode("utf-8")).hexdigest()


class Cache:
    """Entries are folders, complete from the moment they have their name.

    Args:
        kind: What is kept, e.g. ``programs``; the folder's name.
        limit: Bytes above which the entries used longest ago are removed; ``$PTXGYM_CACHE_LIMIT`` overrides it.
    """

    def __init__(self, kind: str, limit: int | None = None) -> None:
        self.folder = cache_root() / kind
        self.limit = limit if limit is not None else int(os.environ.get("PTXGYM_CACHE_LIMIT", _DEFAULT_LIMIT))
        self._added = 0

    def find(self, key: str) -> Path | None:
        """The entry's folder, or None. Finding it marks it as used."""
        folder = self._path(key)
        try:
            os.utime(folder)
        except OSError:
            return None
        return folder

    def load(self, key: str, name: str, record: type[R]) -> tuple[R, Path] | None:
        """A record kept in an entry, and the entry's folder.

        An entry that cannot be read (of another version, or damaged) is removed and does not count.
        """
        folder = self.find(key)
        if folder is None:
            return None
        try:
            return record.model_validate_json((folder / name).read_bytes()), folder
        except (OSError, ValidationError):
            shutil.rmtree(folder, ignore_errors=True)
            return None

    @contextmanager
    def adding(self, key: str) -> Iterator[Path]:
        """A fresh folder that becomes the entry when the block ends without an exception."""
        with self.scratch() as folder:
            yield folder
            self.keep(key, folder)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A fresh folder beside the entries, removed at the end unless it was kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".adding-", dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def keep(self, key: str, folder: Path) -> None:
        """Make a scratch folder the entry of a key.

        Where another process was faster, its entry stays and this one is dropped; both hold the same.
        """
        target = self._path(key)
        target.parent.mkdir(exist_ok=True)
        with suppress(OSError):  # somebody else's entry is there
            folder.rename(target)
        self._added += 1
        if self._added % _PRUNE_EVERY == 1:
            self.prune()

    def prune(self) -> int:
        """Remove what was used longest ago until the rest fits, and scraps of crashed writers; returns bytes freed."""
        entries = [(path.stat().st_mtime, _size(path), path) for path in self.folder.glob("??/*") if path.is_dir()]
        excess = sum(size for _, size, _ in entries) - self.limit
        freed = 0
        for _, size, path in sorted(entries):
            if freed >= excess:
                break
            shutil.rmtree(path, ignore_errors=True)
            freed += size
        for scratch in self.folder.glob(".adding-*"):
            with suppress(OSError):
                if time.time() - scratch.stat().st_mtime > 3600:
                    shutil.rmtree(scratch, ignore_errors=True)
        return freed

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.lstat().st_size
    return total
