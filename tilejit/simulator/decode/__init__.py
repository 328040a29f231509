"""From PTX text to Python functions: parser, basic blocks, translation."""
