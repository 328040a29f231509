"""Functions generated for launches whose like was seen before: type guard, one key, one lookup, pack, launch.

```
k[grid](a, b, n) ─▶ generated function ─ key ─▶ entry ─ pack ─▶ driver
                          └─ anything it doesn't know ─▶ the launcher's usual way, which then teaches it
```

The usual way stays the only one that raises, compiles, stages, waits or explains. `parts` says what a generated
function does with an argument, `text` writes it, `generated` compiles it and keeps what it looks up, `entries` is
what it finds there.
"""
