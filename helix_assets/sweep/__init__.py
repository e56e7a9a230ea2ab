"""Taking in what agents wrote: look, plan, read, derive, settle, commit.

A sweep is the one way into the store, whoever starts it: a sensor, a schedule, a hook, a person.
Not here: what goes (`keep`), and what is asked (`ask`).
"""
