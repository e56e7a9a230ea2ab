"""The web side: `helix up`, the guard in front of Dagster's UI, and Dagster's own records.

Rooms for the REST API, the MCP server and the pages will lie in here.
Not here: what they show (`ask`), or taking in logs (`sweep`).
"""
