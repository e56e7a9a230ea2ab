"""How a session ended, and why.

`ending` judges by named rules, `closing` reads the last words.
Not here: single failures (`derive.failures`).
"""
