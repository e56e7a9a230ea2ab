"""Reports: usage, tools, files, tests, edits, recurring trouble and weeks, computed in DuckDB.

One module per report, listed in `all_reports`.
Not here: the files of published reports (`keep.report_files`).
"""
