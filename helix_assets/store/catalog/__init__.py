"""The SQLite file that says what is part of the store.

`schema` has the tables and migrations; each other module asks about and changes one of them.
Not here: files beside the catalog (`store`).
"""
