"""How a session ended, and why.

`verdict` judges by named rules, `closing` reads the last words.
Not here: single failures (`derive.failures`).
"""
