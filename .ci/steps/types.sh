# Types: of the package, and of programs that use it.
"$bin/mypy"
"$bin/python" -m pytest --all -p no:cacheprovider tests/test_types.py
