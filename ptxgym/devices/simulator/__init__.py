"""The embedded device: an executor of PTX in NumPy, and a CUDA runtime of our own in front of it.

The executor, from text to report::

    ptx/            text to syntax tree; knows no opcode
    module          a parsed file: kernels, variables, and a program per architecture
    program         a function decoded: blocks of bound steps (binder, slots, specials)
    table           opcode to row; instructions/ holds the rows, one module per section of the PTX ISA
    machine         launches and reports; launch (limits, batches), batch (the run loop), scheduler
    state           plain data: registers, shared and local memory, special registers (lanes, memory)
    checks/         watch a batch through events; they live in no instruction
    layouts, tiles, formats, tensor_map, tensor_memory    address functions and number formats

Not promised: the timing of anything, and bit-equal accumulation with a tensor core.
"""
