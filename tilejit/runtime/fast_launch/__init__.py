"""Generated launch functions: they check argument types, look up an entry by key, pack parameters, and launch.

```
k[grid](a, b, n) ─▶ generated function ─ key ─▶ entry ─ pack ─▶ driver
                          └─ anything unknown ─▶ the slow path, which then records it
```

Only the slow path compiles, stages or waits, and it raises all errors except those of grid functions and streams.
`generated` keeps a kernel's functions by argument types; `parts` chooses the code for an argument, and `text` assembles
and compiles the source. `memory` keeps the tables that the functions search, and `entries` makes the entries.
"""
