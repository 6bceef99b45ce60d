"""The commit that broke a program is found in a repository's history."""

from curriculum.evolution.artifacts import Column, Table
from curriculum.evolution.fixtures import WORDS
from curriculum.evolution.pipeline import Source, Step
from curriculum.evolution.sandbox import File
from curriculum.evolution.skills.git_recover import build, stream


class GitBisect(Source):
    gives, skill = Table, "git: bisect"
    packages = ("git",)

    def step(self, rng, place, given):
        count = rng.randint(24, 40)
        bad = rng.randint(5, count - 3)
        subjects = [f"{rng.choice(WORDS)} {rng.choice(WORDS)} {i * 7919 % 1000:03d}" for i in range(count)]
        commits, factor = [], 1
        for number, subject in enumerate(subjects):
            noise = "".join(f"    # {rng.choice(WORDS)} {number}\n" for _ in range(rng.randint(1, 2)))
            last = "values[-1]" if number < bad else "values[0]"
            factor += 1
            code = f"def spread(values):\n{noise}    values = sorted(values)\n    return {last} - values[0]\n"
            commits.append((subject, {"spread.py": code.encode(), "VERSION": b"%d\n" % factor}))
        repo, source = place.data("repo"), place.data("history")
        columns = (Column("position", "number"), Column("subject", "text"), Column("state", "category"))
        rows = tuple((n + 1, one, "good" if n < bad else "bad") for n, one in enumerate(subjects))
        table = Table(place.out(".csv"), columns, rows)
        text = (
            f"`spread` in `spread.py` of the git repository `{repo}` should return the largest value less the smallest; at "
            f"HEAD it always returns 0. Write `{table.path}` with the columns position, subject, state: one row for each "
            "commit of main, the oldest first (position 1), state `good` as long as the function is right and `bad` from the "
            "commit on that broke it. Leave the repository on the branch main."
        )
        solve = f"""cd {repo}
git bisect start HEAD "$(git rev-list --max-parents=0 HEAD)" > /dev/null
git bisect run env PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 python3 -c 'import spread, sys; sys.exit(spread.spread([1, 5]) != 4)' > /dev/null
first=$(git rev-list --count refs/bisect/bad)
git bisect reset > /dev/null 2>&1
git log --reverse --format=%s | awk -v first=$first 'BEGIN {{ print "position,subject,state" }}
  {{ print NR "," $0 "," (NR < first ? "good" : "bad") }}' > {table.path}
cd /app"""
        test = f"""if text("{repo}/.git/HEAD") != "ref: refs/heads/main\\n" or os.path.exists("{repo}/.git/BISECT_START"):
    raise Mismatch("{repo} is not on main")"""
        return Step(
            table, text, solve, test, fixture={source: File(stream(commits))}, setup=(build(repo, source),)
        )


NODE = GitBisect()
