"""Reading what agents wrote into the store: look, plan, read, derive, settle, commit.

A sweep is the only way into the store, whether a sensor, a schedule, a hook or a person starts it.
Not here: eviction (`keep`), reading the store (`ask`).
"""
