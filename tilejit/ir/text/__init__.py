"""The IR as text: `printer` writes it, and begins with the grammar; `parser` reads it."""
