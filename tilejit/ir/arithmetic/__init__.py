"""Arithmetic on expressions: `build` constructs and simplifies, `facts` bounds, `affine` decomposes them."""
