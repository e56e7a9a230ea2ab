# Shortcuts for people with make; ./up and ./check are the commands themselves.

.PHONY: check format lint types definitions tests servers nightly up lock

check:
	./check

format lint types definitions tests servers nightly:
	./check $@

up:
	./up

# The dev lock adds tools to the run-time lock and never moves a version of it. Extras are kept because older pips
# refuse a hashed lock in which a dependency with an extra is pinned without it.
# What only a Python inside a browser would install (httpx2-jsfetch) is left out.
LOCK = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-strip-extras \
	--no-emit-package httpx2-jsfetch \
	--custom-compile-command "make lock" --quiet pyproject.toml --group build

lock:
	$(LOCK) --output-file requirements.lock
	$(LOCK) --group dev --constraints requirements.lock --output-file requirements-dev.lock
