"""Which operations there are: elementwise ones in `elementwise`, tile operations in `tile`.

The tables know types and NumPy, and nothing of the IR, which is checked and folded by them.
"""
