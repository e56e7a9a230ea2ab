"""What rows mean: links, outcomes, test runs, signals, facts, digests.

Pure: rows in, meaning out. The same rules for every agent.
Not here: how an agent writes its log (`agents`), or where results are kept (`store`).
"""
