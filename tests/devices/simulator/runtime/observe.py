"""Run one group of observations of ``behaviour.cu`` in this process.

``python observe.py LIBCUDA LIBCUDART BEHAVIOUR_LIBRARY GROUP`` prints ``name = value`` lines. ``behaviour_h200.txt``
and ``tensor_maps_h200.txt.gz`` are what an H200 answered (driver 580.159.04, nvcc and libcudart 13.0.88)::

    nvcc -shared -cudart shared -O3 -std=c++17 -Xcompiler -fPIC \
        -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]' -o behaviour.so behaviour.cu
    for group in devices properties memory …; do
        echo "[$group]"; python observe.py libcuda.so.1 libcudart.so.13 ./behaviour.so $group
    done
"""

import ctypes
import sys


def main() -> int:
    """Load what is named, in the order a candidate's process does, and observe."""
    driver, runtime, library, group = sys.argv[1:]
    ctypes.CDLL(driver, mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(runtime, mode=ctypes.RTLD_GLOBAL)
    return int(ctypes.CDLL(library).observe_behaviour(group.encode()))


if __name__ == "__main__":
    sys.exit(main())
