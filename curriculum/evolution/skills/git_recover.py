"""A file that was deleted is recovered from a repository's history."""

from curriculum.evolution.artifacts import Table
from curriculum.evolution.fixtures import ORDER_COLUMNS, orders
from curriculum.evolution.pipeline import Source, Step
from curriculum.evolution.sandbox import File


def stream(commits: list[tuple[str, dict[str, bytes | None]]]) -> bytes:
    """Input of git fast-import: commits on main as (subject, files; None deletes)."""
    parts, when = [], 1_767_225_600
    for subject, files in commits:
        when += 3600
        text = subject.encode()
        parts.append(
            b"commit refs/heads/main\ncommitter Dev <dev@example> %d +0000\ndata %d\n%s\n"
            % (when, len(text), text)
        )
        for name, data in files.items():
            parts.append(
                b"D %s\n" % name.encode()
                if data is None
                else b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(data), data)
            )
    return b"".join(parts)


def build(repo: str, source: str) -> str:
    return (
        f"git init -q -b main {repo} && git -C {repo} fast-import --quiet < {source} && git -C {repo} reset -q --hard main "
        f"&& rm {source}"
    )


class GitRecover(Source):
    gives, skill = Table, "git: recover a deleted file"
    packages = ("git",)

    def step(self, rng, place, given):
        rows = orders(rng, rng.randint(30, 50))
        table = Table(place.out(".csv"), ORDER_COLUMNS, tuple(rows))
        versions = [
            Table(table.path, ORDER_COLUMNS, tuple(rows[: len(rows) - cut])).file().data for cut in (9, 4, 0)
        ]
        commits: list = [("Start", {"README": b"Orders.\n", "orders.csv": versions[0]})]
        commits += [("More orders", {"orders.csv": versions[1]}), ("Notes", {"notes.md": b"Check totals.\n"})]
        commits += [
            ("Last orders", {"orders.csv": versions[2]}),
            ("Tidy up", {"orders.csv": None, "README": b"Moved.\n"}),
        ]
        commits += [(f"Note {i}", {"notes.md": b"Note %d.\n" % i}) for i in range(rng.randint(1, 6))]
        repo, source = place.data("repo"), place.data("history")
        text = (
            f"In the git repository `{repo}` the file `orders.csv` was deleted at some point. Write its last version before "
            f"the deletion to `{table.path}`. Do not change the repository's files or history."
        )
        solve = f"""cd {repo}
gone=$(git rev-list -n 1 HEAD -- orders.csv)
git show "$gone^:orders.csv" > {table.path}
cd /app"""
        return Step(table, text, solve, fixture={source: File(stream(commits))}, setup=(build(repo, source),))


NODE = GitRecover()
