"""A CUDA runtime of our own: what a candidate's process loads, and what answers it.

Three processes take part in a run::

    judge                          simulator                     candidate
    device.py, session.py          host.py                       candidate.py, unmodified host code
    process.py: HostProcess  ───►  runtime.py: Runtime  ◄──────  csrc/: libcuda.so.1, libcudart.so.13
    orders and evidence, JSON      functions.py, device_memory.py    protocol.h = protocol.py

``csrc/`` marshals and keeps what is the host's own (streams, events, the last error). Everything that decides lives
on the simulator's side: where memory lies, what may be copied, which launch is allowed, what a tensor map is. Device
memory (``arena.py``) is mapped by the judge and the simulator and never by the candidate, whose device pointers lead
nowhere, as on a GPU.

Errors are the driver's own, compared call by call with an H200 (``tests/devices/simulator/runtime``). What is missing
is exported too, fails with ``cudaErrorNotSupported``, and is recorded by name (``refused_*.def``).

Not promised: times (events order, they do not measure), more than one device, textures, graphs, machine code.
"""
