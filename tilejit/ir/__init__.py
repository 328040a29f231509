"""The IR: nodes, constructors, facts, text format, verifier and analyses."""
