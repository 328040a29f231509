"""Addresses, registers and threads of operands' elements, as functions of the digits of a common mixed-radix index."""
