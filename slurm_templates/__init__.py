"""Jinja templates of job scripts: text only, rendered by `orchestrator.submit.scripts`."""
