"""BM25 over failing kernels: which failures that were repaired look like this one."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from baselines.fixit.sources import without_comments
from baselines.retrieval.repairs import Repair
from ptxgym.errors import MissingToolError

K1, B = 1.5, 0.75
"""As in the paper."""

_TOKEN = re.compile(r"[A-Za-z0-9_.:]*[A-Za-z0-9_]")
_EDGES = ".:"


def tokens(source: str) -> list[str]:
    """The words of a kernel, comments apart, in lower case.

    Dots and colons inside a word belong to it, so that ``cp.async.bulk.tensor.2d.shared::cluster`` is one word, and not
    six that every kernel has.
    """
    words = (word.strip(_EDGES).lower() for word in _TOKEN.findall(without_comments(source)))
    return [word for word in words if len(word) > 1]


@dataclass(frozen=True, slots=True)
class Hit:
    """A repair that was found."""

    repair: Repair
    score: float


class Index:
    """The failing kernels of some repairs, made searchable.

    Args:
        repairs: What can be found.

    Raises:
        MissingToolError: bm25s is not installed.
    """

    def __init__(self, repairs: Sequence[Repair]) -> None:
        if importlib.util.find_spec("bm25s") is None:
            raise MissingToolError("bm25s", "Install it with: pip install 'ptxgym[retrieval]'")
        import bm25s

        self.repairs = tuple(repairs)
        self._bm25 = bm25s.BM25(method="lucene", k1=K1, b=B)
        documents = [tokens(repair.failing) for repair in self.repairs]
        self._bm25.index(documents, show_progress=False)
        self._known = frozenset(word for document in documents for word in document)

    def nearest(
        self, source: str, count: int = 3, allowed: Callable[[Repair], bool] = lambda repair: True
    ) -> list[Hit]:
        """The repairs whose failing kernels share most with a source, best first; none that share nothing.

        Formula: Okapi BM25 as Lucene has it, k1 = 1.5, b = 0.75, every word of the query counted once. Repairs that
        score alike stay in the data set's order.
        """
        query = sorted(set(tokens(source)) & self._known)
        if not query:
            return []
        scores = self._bm25.get_scores(query)
        ranked = sorted(range(len(self.repairs)), key=lambda number: (-float(scores[number]), number))
        hits = (Hit(self.repairs[number], float(scores[number])) for number in ranked if scores[number] > 0)
        return [hit for hit in hits if allowed(hit.repair)][:count]
