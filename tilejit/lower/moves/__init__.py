"""Code shared by variants: masked vectors, partitions of memory over threads, reductions, TMA boxes."""
