"""Repository, domain and task reference, told from text alone."""

from __future__ import annotations

import pytest

from helix_assets.agents import worktrees_of
from helix_assets.derive.places import PlaceRules, domain_of, repo_of, task_of

NO_RULES = PlaceRules(worktrees=worktrees_of())


@pytest.mark.parametrize(
    ("cwd", "repo"),
    [
        ("/home/u/shop", "shop"),
        ("/home/u/shop/", "shop"),
        ("/srv/git/shop.git", "shop"),
        (r"C:\Users\u\shop", "shop"),
        ("/home/u/shop/.claude/worktrees/fix-login", "shop"),
        ("/home/u/shop/.worktrees/1/src", "shop"),
        ("/home/u/shop/worktrees/release", "shop"),
        ("/home/u/.codex/worktrees/4f2a/shop/src", "shop"),
        ("/home/u/.cursor/worktrees/shop/x7Yq", "shop"),
        ("/home/u/shop-worktrees/fix/src", "shop"),
        ("/home/u/shop.worktrees/fix", "shop"),
        ("/workspace/grok-worktrees/parser-audit", "parser-audit"),
        ("/home/u/git-worktree-tools", "git-worktree-tools"),
        ("/", None),
        ("", None),
        (None, None),
    ],
)
def test_path_alone_tells_the_repository(cwd: str | None, repo: str | None):
    assert repo_of(cwd, NO_RULES) == repo


def test_known_top_folder_names_the_repository_of_a_subfolder():
    assert repo_of("/home/u/shop/src/api", NO_RULES, "/home/u/shop") == "shop"
    assert repo_of("/home/u/.codex/worktrees/4f2a/shop", NO_RULES, "/home/u/web-shop") == "web-shop"


@pytest.mark.parametrize(
    ("pattern", "cwd"),
    [("/home/u/code", "/home/u/code/a"), ("/home/u/*/api", "/home/u/x/api"), ("/home/u/main", "/elsewhere/worktree")],
)
def test_the_persons_map_wins_over_path_and_disk(pattern: str, cwd: str):
    assert repo_of(cwd, PlaceRules({pattern: "mine"}), "/home/u/main") == "mine"


def test_longest_prefix_of_the_map_wins():
    rules = PlaceRules({"/home/u": "all", "/home/u/shop": "one"})
    assert (repo_of("/home/u/shop/src", rules), repo_of("/home/u/x", rules)) == ("one", "all")


def test_domain_is_what_the_map_says_or_unknown():
    rules = PlaceRules(domains={"shop": "sales"})
    assert (domain_of("shop", rules), domain_of("blog", rules), domain_of(None, rules)) == ("sales", None, None)


def test_task_comes_from_branch_before_title_before_prompt():
    rules = PlaceRules(task_patterns=(r"\b([A-Z]{2,}-\d+)\b",))
    assert task_of(rules, "feature/ABC-12-login", "XY-3", "do ZZ-9") == "ABC-12"
    assert task_of(rules, None, "a title", "do ZZ-9 now") == "ZZ-9"
    assert task_of(rules, "main", "a title", None) is None
