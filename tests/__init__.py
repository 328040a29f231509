"""Tests and benchmarks."""

import os

# they always compile, and no user's cache is touched; tests of the cache have folders of their own
os.environ["TILEJIT_CACHE"] = "0"
