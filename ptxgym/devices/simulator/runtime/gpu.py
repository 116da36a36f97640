"""The GPUs that are simulated, as their driver describes them.

The attributes of Hopper are an H200's (``behaviour_h200.txt``; driver 580.159), with the memory of an H100 SXM from
NVIDIA's H100 datasheet. Blackwell's differ where its datasheet and the CUDA C++ Programming Guide (Compute
Capabilities) say so; nothing of it was measured here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ptxgym.devices.simulator.runtime.protocol import ATTRIBUTES

_NONE = -(1 << 31)

DRIVER_VERSION = 13000

# By CUdevice_attribute. Left out: what a device without textures, peers and graphs in memory has no use for.
_HOPPER = {
    1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2147483647, 6: 65535, 7: 65535, 8: 49152, 9: 65536, 10: 32,
    11: 2147483647, 12: 65536, 13: 1980000, 14: 512, 15: 1, 16: 132, 17: 0, 18: 0, 19: 1, 20: 0,
    21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384, 27: 32768, 28: 32768, 29: 2048, 30: 512,
    31: 1, 32: 1, 33: 0, 34: 0, 35: 0, 36: 2619000, 37: 5120, 38: 52428800, 39: 2048, 40: 3,
    41: 1, 42: 32768, 43: 2048, 44: 1, 45: 32768, 46: 32768, 47: 8192, 48: 8192, 49: 32768, 50: 0,
    51: 32, 52: 32768, 53: 32768, 54: 2046, 55: 32768, 56: 131072, 57: 65536, 58: 16384, 59: 16384, 60: 16384,
    61: 32768, 62: 2048, 63: 32768, 64: 32768, 65: 2048, 66: 32768, 67: 32768, 68: 2046, 69: 268435456, 70: 131072,
    71: 65000, 72: 2097120, 73: 32768, 74: 32768, 75: 9, 76: 0, 77: 32768, 78: 1, 79: 1, 80: 1,
    81: 233472, 82: 65536, 83: 1, 84: 0, 85: 0, 86: 0, 87: 2, 88: 0, 89: 1, 90: 1,
    91: 0, 92: 0, 93: 0, 94: 0, 95: 1, 96: 0, 97: 232448, 98: 0, 99: 0, 100: 0,
    101: 0, 102: 0, 103: 0, 104: 0, 105: 0, 106: 32, 107: 0, 108: 32768000, 109: 134217728, 110: 0,
    111: 1024, 112: 0, 113: 0, 114: 0, 115: 1, 116: 0, 117: 0, 118: 0, 119: 0, 120: 1,
    121: 0, 122: 0, 123: 0, 124: 0, 125: 0, 126: 4, 127: 1, 128: 0, 129: 1, 130: 0,
    131: -1, 132: 0, 133: 0, 134: -1, 135: 0, 136: 0, 137: 0, 138: 0, 139: 0, 140: 0,
    141: 0, 142: 0, 143: 0, 144: 0, 145: 0, 146: 0, 147: 0,
}  # fmt: skip
_BLACKWELL = _HOPPER | {13: 1965000, 16: 148, 36: 3996000, 37: 8192, 38: 132644864, 75: 10, 108: 82903040}


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, as far as host code can ask."""

    architecture: str
    """As nvcc names it, e.g. ``90a``."""
    name: str
    memory: int
    """Bytes that it says it has; the arena is smaller."""
    attributes: dict[int, int]
    """By ``CUdevice_attribute``."""
    cluster_processors: int
    """Multiprocessors that clusters of more than two blocks can occupy; the others are left over in their GPC."""

    @property
    def processors(self) -> int:
        """Multiprocessors."""
        return self.attributes[16]

    @property
    def blackwell(self) -> bool:
        """Whether this is compute capability 10."""
        return self.attributes[75] == 10

    def description(self) -> bytes:
        """The ``struct description`` of ``csrc/protocol.h``."""
        values = [self.attributes.get(index, _NONE) for index in range(ATTRIBUTES)]
        uuid = f"ptxgym-{self.architecture}".encode().ljust(16, b"\0")
        return struct.pack(f"=256s16s{ATTRIBUTES}i", self.name.encode(), uuid, *values)


GPUS = {
    "90a": Gpu("90a", "ptxgym simulator (H100 SXM)", 85_029_158_912, _HOPPER, 124),
    "100a": Gpu("100a", "ptxgym simulator (B200)", 191_514_017_792, _BLACKWELL, 144),
}
"""By architecture."""
