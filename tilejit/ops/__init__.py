"""The operations: elementwise ones in `elementwise`, tile operations in `tile`.

The tables don't depend on the IR, which uses them to verify and fold operations.
"""
