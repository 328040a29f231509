"""Translation of PTX text into Python functions: parser, basic blocks, emitter."""
