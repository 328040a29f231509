"""The textual form of the IR: `printer` documents and writes it, `parser` reads it."""
