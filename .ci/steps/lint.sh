# Ruff's rules and format; each defect of tests/defects.toml has its place in the code.
"$bin/ruff" check .
"$bin/ruff" format --check .
"$bin/python" -m tests.defects --check
