# Ruff's rules and format.
"$bin/ruff" check .
"$bin/ruff" format --check .
