"""Clocks, power and heat, by NVML. Reads only; what NVML does not tell is zero or empty."""

from __future__ import annotations

from typing import Any

_REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
"""``nvmlClocksEventReason*`` (nvml.h)."""


class Telemetry:
    """One GPU's sensors.

    Args:
        uuid: The GPU, e.g. ``GPU-…``.
    """

    def __init__(self, uuid: str) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self._nvml = pynvml
        except Exception:  # NVML is absent or refuses: its error classes live in the module that may be missing
            self._nvml = None

    def sm_clock_mhz(self) -> int:
        """The multiprocessors' clock now."""
        return int(self._read("nvmlDeviceGetClockInfo", 1))

    def max_sm_clock_mhz(self) -> int:
        """The highest clock of the multiprocessors."""
        return int(self._read("nvmlDeviceGetMaxClockInfo", 1))

    def memory_bandwidth(self) -> float:
        """Bytes per second: two transfers per clock of the memory, times the bus."""
        return self._read("nvmlDeviceGetMaxClockInfo", 2) * 1e6 * 2 * self._read("nvmlDeviceGetMemoryBusWidth") / 8

    def power_limit_watts(self) -> float:
        """The power cap in force."""
        return self._read("nvmlDeviceGetEnforcedPowerLimit") / 1000

    def temperature_celsius(self) -> float:
        """The GPU's temperature."""
        return self._read("nvmlDeviceGetTemperature", 0)

    def throttle_bits(self) -> int:
        """Why clocks are below their maximum now, as NVML's bits."""
        return int(self._read("nvmlDeviceGetCurrentClocksEventReasons"))

    def _read(self, function: str, *arguments: int) -> float:
        if self._nvml is None:
            return 0.0
        try:
            return float(getattr(self._nvml, function)(self._handle, *arguments))
        except Exception:  # not every board has every sensor
            return 0.0


def throttle_reasons(bits: int) -> tuple[str, ...]:
    """NVML's bits in words; idle is no reason to worry and left out."""
    return tuple(name for bit, name in _REASONS.items() if bits & bit and bit != 0x1)
