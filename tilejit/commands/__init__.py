"""Commands of `python -m tilejit` on a user's kernels, their output as data and as text, and the MCP server."""
