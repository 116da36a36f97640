"""The embedded device: an executor of PTX in NumPy, and a CUDA runtime of our own in front of it."""
