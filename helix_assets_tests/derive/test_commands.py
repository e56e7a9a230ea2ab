"""What a command line runs, as the agents write them."""

from __future__ import annotations

import time

import pytest

from helix_assets.derive import commands

RUNS_TESTS = {
    "pytest -q": "pytest",
    "cd app && uv run pytest tests/ -v 2>&1 | tail -20": "pytest",
    "python3 -m pytest -x": "pytest",
    "uv run --with pytest-xdist pytest -n 4": "pytest",
    "PYTHONPATH=src .venv/bin/python -m pytest": "pytest",
    "coverage run -m pytest": "pytest",
    "if pytest -q; then echo ok; fi": "pytest",
    "for i in 1 2 3; do pytest -q; done": "pytest",
    "pytest>out.txt 2>&1; tail -5 out.txt": "pytest",
    'bash -lc "cd shop && pytest -q"': "pytest",
    "docker compose exec app pytest": "pytest",
    "pip install -e . && pytest": "pytest",
    "python -m unittest discover": "unittest",
    "python manage.py test shop": "unittest",
    "npx jest cart --runInBand": "jest",
    "pnpm vitest run": "vitest",
    "pnpm --filter @acme/web test": "npm test",
    "pnpm --filter @acme/web exec vitest run": "vitest",
    "npx playwright test": "playwright",
    "node --experimental-vm-modules --test": "node:test",
    "npm run test:unit -- --watch=false": "npm test",
    "yarn workspace web test": "npm test",
    "npx tsc --noEmit && npm test": "npm test",
    "timeout 2m go test ./...": "go test",
    "cargo +nightly test --workspace": "cargo test",
    "cargo nextest run": "cargo nextest",
    "bundle exec rspec": "rspec",
    "bin/rails test": "minitest",
    "php artisan test": "phpunit",
    "vendor/bin/phpunit": "phpunit",
    "./mvnw -q test": "maven",
    "./gradlew :app:testDebugUnitTest": "gradle",
    "dotnet test Shop.sln": "dotnet test",
    "bun test src/cart.test.ts": "bun test",
    "cd web && bun --bail test 2>&1 | tail -20": "bun test",
    "bun run test": "npm test",
    "npx ava --tap": "ava",
    "./gradlew check -x lint": "gradle",
    "ctest --output-on-failure": "ctest",
    "cmake --build build --target test": "make",
    "make -j4 test": "make",
    "tox -e py311": "tox",
    "nox -s tests": "nox",
    "./run_tests.sh": commands.SCRIPT,
    "make check": commands.SCRIPT,
    "python tests/test_cart.py": commands.SCRIPT,
    "deno test -A": commands.SCRIPT,
    "forge test -vvv": commands.SCRIPT,
    "./gradlew build -x test": commands.SCRIPT,
}
RUNS_NONE = [
    "pip install pytest",
    "npm install --save-dev jest",
    "npx playwright install",
    "cargo install cargo-nextest",
    "which pytest",
    "pytest --version",
    "pytest --collect-only",
    "grep -rn pytest .",
    "cat tests/test_cart.py",
    'git commit -m "pytest passes; npm test too"',
    "echo 'pytest -q'",
    "cat > run.sh <<'EOF'\npytest -q\nEOF\nchmod +x run.sh",
    "git checkout -b test",
    "mvn verify -DskipTests",
    "./gradlew assemble -x test",
    "bun install test",
    "ls -la",
]
PROGRAMS = {
    "cd app && FOO=1 git status": "git",
    "sudo -u root apt-get update": "apt-get",
    "timeout 60 pytest -q": "pytest",
    "npx eslint .": "eslint",
    "/usr/bin/python3 -c 'import os; os.exit()'": "python3",
    "mkdir -p a\ncp b a": "cp",
    "echo done": None,
    "": None,
}


@pytest.mark.parametrize(("command", "framework"), RUNS_TESTS.items())
def test_command_runs_tests(command: str, framework: str):
    assert commands.test_framework(command) == framework


@pytest.mark.parametrize("command", RUNS_NONE)
def test_command_that_only_names_a_framework_runs_no_tests(command: str):
    assert commands.test_framework(command) is None


@pytest.mark.parametrize(("command", "name"), PROGRAMS.items())
def test_program_is_the_first_that_does_the_work(command: str, name: str | None):
    assert commands.program(command) == name


@pytest.mark.parametrize("part", ["'", '"', "\\", "<<A ", "(test", "test ", "'\"", "test <<X\n"])
def test_hostile_command_is_read_in_no_time(part: str):
    began = time.process_time()
    commands.test_framework("pytest " + part * 200_000)
    assert time.process_time() - began < 1
