"""The git command line as functions: text and bytes out, errors with their cure.

Paths go in and come out as git has them: UTF-8 with surrogate escapes, separated by NUL where git
lists them. Hooks never run, nobody is asked for a password, and the variables by which a hook is
told of its own repository are dropped, so that a command run from a hook works on `folder`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from stages.errors import Outcome, RecipeError

_REPOSITORY_VARIABLES = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_EXTERNAL_DIFF",
        "GIT_GLOB_PATHSPECS",
        "GIT_GRAFT_FILE",
        "GIT_ICASE_PATHSPECS",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_LITERAL_PATHSPECS",
        "GIT_NAMESPACE",
        "GIT_NOGLOB_PATHSPECS",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_QUARANTINE_PATH",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)
"""`git rev-parse --local-env-vars` of git 2.39 but for GIT_CONFIG*, and how pathspecs are read."""

SHORT = 12
"""Hexadecimal digits of a commit's hash that are enough for a reader."""
_SETTINGS = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.autoDetach=false")
_ADDRESS_SECRET = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})

_CURES = (
    ("no space left", "free some space on the disk, and run again"),
    ("out of diskspace", "free some space on the disk, and run again"),
    ("unable to write", "free some space on the disk, and check who may write there"),
    ("dubious ownership", "run as the folder's owner, or `git config --global --add "
     "safe.directory FOLDER`"),
    ("permission denied", "check who may read and write there, and the keys that git uses"),
    ("could not read username", "give git a credential helper, or an address with a key"),
    ("authentication failed", "check the credentials that git has for this address"),
    ("could not resolve host", "check the address and the network: `git ls-remote ADDRESS`"),
    ("unable to access", "check the address and the network: `git ls-remote ADDRESS`"),
    ("does not appear to be a git repository", "check the address: `git ls-remote ADDRESS`"),
    ("does not exist", "check the address: `git ls-remote ADDRESS`"),
    (".lock': file exists", "another git works there: wait for it, or delete the lock it left"),
    ("promisor", "the repository is a partial clone: fetch its objects there with "
     "`git fetch --refetch --no-filter`"),
    ("repository corruption", "the repository is a partial clone (`git fetch --refetch "
     "--no-filter` there), or damaged (`git fsck` there)"),
)  # fmt: skip


class GitError(RecipeError):
    """git can't do what was asked: no repository, no such commit, an address that is down."""

    outcome = Outcome.BAD_INPUT


def git(
    folder: Path,
    *arguments: str,
    variables: Mapping[str, str] = _NO_VARIABLES,
    given: str = "",
    holding: Sequence[int] = (),
) -> str:
    """What the command prints, without the newline at its end. `given` is its stdin.

    `holding` are descriptors of locks that last as long as the command, should we be killed.

    Raises:
        GitError: git is missing, or the command fails.
    """
    printed = git_bytes(
        folder, *arguments, variables=variables, given=os.fsencode(given), holding=holding
    )
    return os.fsdecode(printed).removesuffix("\n")


def git_bytes(
    folder: Path,
    *arguments: str,
    variables: Mapping[str, str] = _NO_VARIABLES,
    given: bytes = b"",
    holding: Sequence[int] = (),
) -> bytes:
    """What the command prints, as it is; see `git`.

    Raises:
        GitError: git is missing, or the command fails.
    """
    ended = _run(folder, arguments, variables, given, holding)
    if ended.returncode != 0:
        raise failure_of(folder, arguments, ended.stderr)
    return ended.stdout


def git_answers(folder: Path, *arguments: str) -> bool:
    """Whether a command that answers by its exit code says yes (0) or no (1).

    Raises:
        GitError: git is missing, or ends with another code.
    """
    ended = _run(folder, arguments)
    if ended.returncode not in (0, 1):
        raise failure_of(folder, arguments, ended.stderr)
    return ended.returncode == 0


def without_secrets(text: str) -> str:
    """The text with the user and password of every address in it left out."""
    return _ADDRESS_SECRET.sub("***", text)


def failure_of(folder: Path, arguments: tuple[str, ...], stderr: bytes) -> GitError:
    """git's own words, the folder, and the cure where the words are known."""
    lines = [line for line in os.fsdecode(stderr).splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-3:]
    words = without_secrets("; ".join(said)) or "it gave no reason"
    cure = next((cure for sign, cure in _CURES if sign in words.lower()), "")
    return GitError(f"git {_subcommand(arguments)}: {words}", where=str(folder), hint=cure)


def _subcommand(arguments: tuple[str, ...]) -> str:
    """The first word that is no option of git itself."""
    words = iter(arguments)
    for word in words:
        if word == "-c":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def _run(
    folder: Path,
    arguments: tuple[str, ...],
    variables: Mapping[str, str] = _NO_VARIABLES,
    given: bytes = b"",
    holding: Sequence[int] = (),
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            command_line(arguments),
            cwd=folder,
            env=environment(variables),
            input=given,
            capture_output=True,
            pass_fds=holding,
            check=False,
        )
    except FileNotFoundError as error:
        raise _cannot_start(folder) from error


def _cannot_start(folder: Path) -> GitError:
    if not folder.is_dir():
        return GitError("no such folder", where=str(folder), hint="check the path")
    return GitError("git isn't installed", hint="install git 2.30 or newer")


def command_line(arguments: tuple[str, ...]) -> list[str]:
    """The command with the settings that every call has."""
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    return ["git", *settings, *arguments]


def environment(variables: Mapping[str, str] = _NO_VARIABLES) -> dict[str, str]:
    """This process's environment, without what would point git elsewhere, and never asking."""
    kept = {key: value for key, value in os.environ.items() if key not in _REPOSITORY_VARIABLES}
    quiet = {"LC_ALL": "C.UTF-8", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    return {**kept, **quiet, **variables}


def find_commit(folder: Path, revision: str, *, where: str = "") -> str:
    """The commit that a revision names, as a full hash.

    Raises:
        GitError: no such commit, or the repository has none yet.
    """
    return _find(folder, revision, "commit", where)


def find_tree(folder: Path, revision: str, *, where: str = "") -> str:
    """The tree that a revision, a tree or `REVISION:FOLDER` names, as a full hash.

    Raises:
        GitError: no such tree, or the repository has no commit yet.
    """
    return _find(folder, revision, "tree", where)


def _find(folder: Path, revision: str, kind: str, where: str) -> str:
    wanted = f"{revision}^{{{kind}}}"
    asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", wanted)
    ended = _run(folder, asked)
    if ended.returncode == 0:
        return os.fsdecode(ended.stdout).strip()
    if not has_commits(folder):
        raise GitError(
            "the Git repository has no commit yet", where=where or str(folder), hint="commit first"
        )
    raise GitError(
        f"no {kind} {revision!r}",
        where=where or str(folder),
        hint=f"give a branch, a tag or a commit's hash{_near(folder, revision)}",
    )


def _near(folder: Path, revision: str) -> str:
    import difflib

    names = git(folder, "for-each-ref", "--format=%(refname:short)").splitlines()
    near = difflib.get_close_matches(revision, names, n=3, cutoff=0.5)
    return f"; near: {', '.join(near)}" if near else ""


def has_commits(folder: Path) -> bool:
    """Whether any reference or HEAD leads to a commit.

    Raises:
        GitError: the folder is in no Git repository.
    """
    any_branch = bool(git(folder, "rev-list", "--max-count=1", "--all"))
    return any_branch or git_answers(folder, "rev-parse", "--verify", "--quiet", "HEAD")


def has_object(folder: Path, commit: str) -> bool:
    """Whether the repository still holds this commit."""
    ended = _run(folder, ("cat-file", "-e", f"{commit}^{{commit}}"))
    return ended.returncode == 0


def is_ancestor(folder: Path, old: str, new: str) -> bool:
    """Whether `new` was built on `old`, or is it.

    Raises:
        GitError: one of them isn't there.
    """
    return git_answers(folder, "merge-base", "--is-ancestor", old, new)


def merge_base(folder: Path, one: str, other: str) -> str | None:
    """The best common ancestor, or None where histories share nothing.

    Raises:
        GitError: one of them isn't there.
    """
    if not git_answers(folder, "merge-base", one, other):
        return None
    return git(folder, "merge-base", one, other).splitlines()[0]
