"""Runs as pages: tables and figures beside the paper's published values, and every trajectory turn by turn.

Pages carry their styles and figures inside, run no script and ask the network for nothing. Kernels, feedback and
messages are hostile text: templates escape everything, and characters that would hide or reorder text are shown.
"""
