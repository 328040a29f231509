"""What PTX arithmetic computes, on NumPy arrays and scalars alike."""
