"""A policy that visibly learns: a small network makes the choices of a parametrised Hopper GEMM.

It is no agent and writes no code. It is here to show that the environment's rewards can be learned from, in seconds on
the simulator (stay legal, use the target instructions) and on a GPU (be fast), with nothing hidden: the kernel in
``gemm.cu.template``, the choices in ``kernel.py``, the environment in ``judge.py``, REINFORCE in ``policy.py``, and
random and exhaustive search beside it in ``search.py``.
"""
