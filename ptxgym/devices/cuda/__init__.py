"""NVIDIA GPUs: the judge's memory, candidate sessions, memcheck, Nsight Compute, CUPTI and NVML."""

from ptxgym.devices.cuda.device import CudaDevice

__all__ = ["CudaDevice"]
