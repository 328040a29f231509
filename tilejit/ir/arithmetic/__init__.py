"""Arithmetic on expressions: `build` constructs and simplifies them, `facts` bounds them, `affine` decomposes them."""
