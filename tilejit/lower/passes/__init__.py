"""Passes over lane IR (see `pipeline.PASSES`). Some functions are called by lowering itself."""
