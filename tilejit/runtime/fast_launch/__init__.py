"""Generated launch functions: they check argument types, look up one key, pack parameters, and launch.

```
k[grid](a, b, n) ─▶ generated function ─ key ─▶ entry ─ pack ─▶ driver
                          └─ anything unknown ─▶ the slow path, which then records it
```

Only the slow path compiles, stages, waits or explains, and it raises all errors except those of grid functions and
streams. `generated` holds a kernel's functions; `parts` chooses the code for an argument, `text` assembles and compiles
the source. `memory` holds the tables that the functions look up, and `entries` makes their entries.
"""
