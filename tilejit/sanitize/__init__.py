"""Checks of kernels that other compilers compiled, on the simulator."""
