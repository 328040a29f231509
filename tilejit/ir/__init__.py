"""The IR: nodes, constructors, facts, text, verifier, and which threads are active where."""
