"""Translation of PTX into Python functions: parser, basic blocks, emitter."""
