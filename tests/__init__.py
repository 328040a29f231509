"""Tests and benchmarks."""

import os

# what they compile is compiled, and nobody's cache is touched; tests of the cache have folders of their own
os.environ["TILEJIT_CACHE"] = "0"
