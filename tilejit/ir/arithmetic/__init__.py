"""Expressions with meaning: `build` makes the simplest, `facts` bounds what one may be, `affine` takes it apart."""
