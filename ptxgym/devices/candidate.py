"""The process that runs a candidate. Standard library only; started by :mod:`ptxgym.devices.process`.

It answers one JSON request per line on a Unix socket whose path is its only argument. It carries data (return codes,
kernel records), never a verdict: whatever it says, the judge looks at the outputs itself. It knows nothing of
reference outputs or seeds, and after ``confine`` it can reach no file, program or network outside its own folder.

The same process serves two runtimes: NVIDIA's, or the simulator's own ``libcuda.so.1`` and ``libcudart.so.13``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import select
import socket
import sys
import threading
from types import ModuleType
from typing import Any

Request = dict[str, Any]
Reply = dict[str, Any]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_HOST_LIBRARIES = (
    "libm.so.6",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
)
"""What a host library may need. Loaded before ``confine``, after which no library can be opened by name."""


class CudaError(Exception):
    """A driver call failed in this process."""


class IpcHandle(ctypes.Structure):
    """``CUipcMemHandle`` (CUDA driver API)."""

    _fields_ = [("reserved", ctypes.c_char * 64)]


class Candidate:
    """The state of this process, and one method per request."""

    def __init__(self) -> None:
        self.driver: Any = None
        self.runtime: Any = None
        self.function: Any = None
        self.timer: Any = None
        self.stream = ctypes.c_void_p()
        self.shared: dict[str, tuple[int, int]] = {}  # name: (address, bytes)
        self.private: dict[str, tuple[int, int]] = {}

    def start(self, request: Request) -> Reply:
        """Load the CUDA libraries; with ``timer``, CUPTI too. Nothing of it touches a device."""
        for name in _HOST_LIBRARIES:
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        self.driver = ctypes.CDLL(request["driver"], mode=ctypes.RTLD_GLOBAL)
        self.runtime = ctypes.CDLL(request["runtime"], mode=ctypes.RTLD_GLOBAL)
        self.runtime.cudaGetErrorName.restype = self.runtime.cudaGetErrorString.restype = ctypes.c_char_p
        if request.get("timer"):
            sys.path += request["timer"]
            self.timer = _load("devices/cuda/kernel_timer.py").KernelTimer()
        return {}

    def context(self, _: Request) -> Reply:
        """Make a context on the device, and the pool of ``cudaMallocAsync``, while files may still be opened."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._check("cuInit", 0)
        self._check("cuDeviceGet", ctypes.byref(device), 0)
        self._check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._check("cuCtxSetCurrent", context)
        self._check("cuStreamCreate", ctypes.byref(self.stream), 0)
        pooled = ctypes.c_uint64()
        if not self.driver.cuMemAllocAsync(ctypes.byref(pooled), ctypes.c_size_t(1), self.stream):  # else without pools
            self._check("cuMemFreeAsync", pooled, self.stream)
            self._check("cuStreamSynchronize", self.stream)
        return {}

    def map(self, request: Request) -> Reply:
        """Open the judge's buffers. With ``private``, allocate twins of exact size that the candidate gets instead.

        The memory checker sees the end of an allocation; a shared one is rounded up.
        """
        self._unmap()
        for buffer in request["buffers"]:
            pointer = ctypes.c_void_p()
            handle = IpcHandle.from_buffer_copy(bytes.fromhex(buffer["handle"]))
            self._check("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), handle, 1)
            self.shared[buffer["name"]] = (pointer.value or 0, buffer["bytes"])
            if request["private"]:
                twin = ctypes.c_uint64()
                self._check("cuMemAlloc_v2", ctypes.byref(twin), ctypes.c_size_t(buffer["bytes"]))
                self.private[buffer["name"]] = (twin.value, buffer["bytes"])
        return {}

    def confine(self, request: Request) -> Reply:
        """Give up files and system calls for good; says what is in force."""
        confinement = _load("toolchain/confinement.py")
        confinement.limit_resources(**request["limits"])
        inforce = ["limits"]
        if confinement.restrict_files(request["readable"], request["writable"]):
            inforce.append("files")
        if confinement.restrict_syscalls(request["allowed"]):
            inforce.append("syscalls")
        return {"confinement": inforce}

    def load(self, request: Request) -> Reply:
        """Load the candidate's library. From here on its code runs in this process."""
        try:
            self.function = ctypes.CDLL(request["library"]).run
        except (OSError, AttributeError) as error:
            return {"error": str(error)}
        self.function.restype = ctypes.c_int
        return {}

    def run(self, request: Request) -> Reply:
        """Call ``run`` once and wait for the device; with ``profile``, a profiler that waits for it looks on."""
        self._exchange(self.shared, self.private)
        if request.get("profile"):
            self.driver.cuProfilerStart()  # where that fails, nothing is seen, which the judge notices
        reply = self._call(request["arguments"])
        if request.get("profile"):
            self.driver.cuProfilerStop()
        self._exchange(self.private, self.shared)
        return reply

    def time(self, request: Request) -> Reply:
        """Flush the L2 cache by filling ``flush``, call ``run`` once, and give the device's records of both."""
        flush, flush_bytes = self.shared["flush"]
        self.timer.begin()
        for _ in range(request["fills"]):
            self._check("cuMemsetD8Async", ctypes.c_uint64(flush), 0, ctypes.c_size_t(flush_bytes), self.stream)
        reply = self._call(request["arguments"])
        self.timer.end()
        return {**reply, "activities": self.timer.records()[0]}

    def repeat(self, request: Request) -> Reply:
        """Call ``run`` several times back to back, each with its own buffers, then wait for the device."""
        calls = [self._arguments(arguments) for arguments in request["calls"]]
        codes = [self.function(*arguments) for arguments in calls]
        return {"code": next(filter(None, codes), 0), "sync": self.driver.cuCtxSynchronize()}

    def _call(self, arguments: list[list[Any]]) -> Reply:
        code = self.function(*self._arguments(arguments))
        sync = self.driver.cuCtxSynchronize()
        reply: Reply = {"code": code, "sync": sync}
        if code or sync:
            number = code or sync
            reply["name"] = (self.runtime.cudaGetErrorName(number) or b"").decode(errors="replace")
            reply["text"] = (self.runtime.cudaGetErrorString(number) or b"").decode(errors="replace")
        return reply

    def _arguments(self, arguments: list[list[Any]]) -> list[Any]:
        buffers = self.private or self.shared
        values: list[Any] = [
            ctypes.c_void_p(buffers[value][0]) if kind == "buffer" else ctypes.c_int(value) for kind, value in arguments
        ]
        return [*values, self.stream]

    def _exchange(self, source: dict[str, tuple[int, int]], target: dict[str, tuple[int, int]]) -> None:
        """Copy every buffer that has a twin; an error is left for the judge to see in the outputs."""
        for name in self.private:
            (to, count), (origin, _) = target[name], source[name]
            self.driver.cuMemcpy(ctypes.c_uint64(to), ctypes.c_uint64(origin), ctypes.c_size_t(count))
        if self.private:
            self.driver.cuCtxSynchronize()

    def _unmap(self) -> None:
        for address, _ in self.private.values():
            self._check("cuMemFree_v2", ctypes.c_uint64(address))
        for address, _ in self.shared.values():
            self._check("cuIpcCloseMemHandle", ctypes.c_uint64(address))
        self.shared, self.private = {}, {}

    def _check(self, name: str, *arguments: Any) -> None:
        code = getattr(self.driver, name)(*arguments)
        if code:
            raise CudaError(f"{name} returned CUDA error {code}")


def _load(path: str) -> ModuleType:
    """Load a module of this package by its file, without the package."""
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, os.path.join(_PACKAGE, path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _end_with(connection: socket.socket) -> None:
    """End this process when the judge is gone, also in the middle of a call."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    poll.poll()
    os._exit(0)


def main() -> None:
    """Answer requests until the judge hangs up."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    candidate = Candidate()
    with connection.makefile("rwb") as stream:
        for line in stream:
            request = json.loads(line)
            try:
                reply = getattr(candidate, request["op"])(request)
            except (CudaError, OSError, ImportError) as error:
                reply = {"fault": f"{type(error).__name__}: {error}"}
            stream.write(json.dumps(reply).encode() + b"\n")
            stream.flush()
    os._exit(0)  # the candidate's destructors have nothing left to say


if __name__ == "__main__":
    main()
