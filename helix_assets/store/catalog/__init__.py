"""The SQLite file that says what is part of the store.

`schema` has the tables and migrations; each other module reads and changes one of them.
Not here: the other files of the store (`store`).
"""
