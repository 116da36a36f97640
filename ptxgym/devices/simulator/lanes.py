"""Sets of lanes: which threads of a batch execute an instruction together.

Lanes of a batch are numbered ``cta * stride + thread``.  A set that is an arithmetic progression (a whole
batch, a warpgroup, thread 0 of every CTA) is a slice, so that register rows are views; any other set is an
index array.  Sets are interned: the same threads meet again at every iteration of a loop, and their
register views are kept with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Index = npt.NDArray[np.intp]


class LaneSet:
    """A sorted, non-empty set of lanes."""

    __slots__ = ("_facts", "count", "first", "index", "selector", "sliced", "views")

    def __init__(self, index: Index) -> None:
        self.index = index
        self.count = len(index)
        self.first = int(index[0])
        """The lowest lane."""
        self.selector, self.sliced = _selector(index)
        self.views: dict[int, Any] = {}
        self._facts: dict[str, Any] = {}

    def fact(self, name: str, compute: Any) -> Any:
        """A property of the set that is computed once."""
        value = self._facts.get(name)
        if value is None:
            value = self._facts[name] = compute(self)
        return value


def _selector(index: Index) -> tuple[slice | Index, bool]:
    first, last, count = int(index[0]), int(index[-1]), len(index)
    if count == 1:
        return slice(first, first + 1), True
    step, rest = divmod(last - first, count - 1)
    if rest or (count > 2 and not bool((np.diff(index) == step).all())):
        return index, False
    return slice(first, last + 1, step), True


class LanePool:
    """Interns the lane sets of a batch."""

    def __init__(self, capacity: int = 4096) -> None:
        self._sets: dict[bytes, LaneSet] = {}
        self._unions: dict[tuple[int, ...], LaneSet] = {}
        self._capacity = capacity

    def of(self, index: npt.NDArray[Any]) -> LaneSet:
        """The set of these sorted lanes."""
        index = np.ascontiguousarray(index, np.intp)
        key = index.tobytes()
        found = self._sets.get(key)
        if found is None:
            if len(self._sets) >= self._capacity:
                self._sets.clear()
                self._unions.clear()
            found = self._sets[key] = LaneSet(index)
        return found

    def subset(self, lanes: LaneSet, mask: npt.NDArray[Any]) -> LaneSet:
        """The lanes whose mask is true; there must be one."""
        return self.of(lanes.index[mask])

    def union(self, sets: Sequence[LaneSet]) -> LaneSet:
        """The union of disjoint sets."""
        if len(sets) == 1:
            return sets[0]
        key = tuple(sorted(id(s) for s in sets))
        found = self._unions.get(key)
        if found is None:
            found = self.of(np.sort(np.concatenate([s.index for s in sets])))
            # The key holds identities, so the sets must outlive it: they do, in the pool.
            self._unions[key] = found
        return found
