"""Passes over lane IR (see `pipeline.PASSES`). Lowering itself calls `store_groups.check` and `grid_barrier.wait`."""
