"""Source to Program: nvcc, the ptxas report, disassembly, source flags, and the cache."""

from ptxgym.toolchain.cache import Cache, cache_root, content_key
from ptxgym.toolchain.compiler import compile_source
from ptxgym.toolchain.program import Advisory, KernelInstructions, KernelResources, Program, Record
from ptxgym.toolchain.source import MAX_SOURCE_BYTES, Source, SourceRefusedError, read_source
from ptxgym.toolchain.toolkit import Toolkit, find_toolkit

__all__ = [
    "MAX_SOURCE_BYTES",
    "Advisory",
    "Cache",
    "KernelInstructions",
    "KernelResources",
    "Program",
    "Record",
    "Source",
    "SourceRefusedError",
    "Toolkit",
    "cache_root",
    "compile_source",
    "content_key",
    "find_toolkit",
    "read_source",
]
