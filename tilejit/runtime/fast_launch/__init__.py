"""Functions generated for launches whose like was seen before: type guard, one key, one lookup, pack, launch.

```
k[grid](a, b, n) ─▶ generated function ─ key ─▶ entry ─ pack ─▶ driver
                          └─ anything it doesn't know ─▶ the launcher's usual way, which then teaches it
```

The usual way stays the only one that raises, compiles, stages, waits or explains. `generated` keeps a kernel's
functions; `parts` says what one does with an argument, `text` writes it, `making` compiles it. `memory` keeps what they
look up, `entries` is what they find there, `guards` what torch has for telling tensors apart.
"""
