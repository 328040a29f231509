"""What the IR means, in NumPy and plain Python: what is run elsewhere is compared with this.

layouts: where an element lives. expressions, threads, instructions, products: what each thread of a CTA computes,
statement by statement. tiles: what a tile operation leaves in its destination. functions: the true values of
mathematical functions.

Nothing here reads how the compiler lowers, and neither the proof of plans nor the simulator reads anything here.
"""
