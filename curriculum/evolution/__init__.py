"""Environment evolution for terminal agents: tasks, a sandbox to run and grade them in, and tasks made from skill nodes.

`task` reads and writes Harbor's directory format, `lint` checks a task without running it, `sandbox` runs it,
`rollout` lets agents try it, `pipeline` and `skills` make tasks that come with their oracle and tests, `verify`
decides by execution which tasks are sound. Command line: `python -m curriculum.evolution.run`.
"""
