"""Passes over lane IR, listed in `pipeline.PASSES`, and related functions that lowering calls directly."""
