"""The operations: elementwise ones in `elementwise`, tile operations in `tile`.

The tables depend on types and NumPy only. The IR uses them to check and to fold operations.
"""
