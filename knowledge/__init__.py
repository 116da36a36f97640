"""What a kernel writer must know, by architecture and by operator, and the loader that composes a prompt from it.

``include/ptxgym/*.cuh`` are wrappers, one thin function per instruction; ``hopper/`` and ``blackwell/`` hold the limits
of each GPU, the contracts of the architecture and example kernels that keep them; ``operators/`` holds schedules and
hints. A kernel may include the headers; a prompt quotes them.
"""

from knowledge.amalgamation import amalgamate
from knowledge.headers import INCLUDE, quote
from knowledge.prompts import LEVELS, Level, Part, Prompt, knowledge_parts, prompt, variants
from knowledge.tokens import estimate_tokens

__all__ = [
    "INCLUDE",
    "LEVELS",
    "Level",
    "Part",
    "Prompt",
    "amalgamate",
    "estimate_tokens",
    "knowledge_parts",
    "prompt",
    "quote",
    "variants",
]
