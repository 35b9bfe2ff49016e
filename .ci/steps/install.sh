# What the next steps need, in the environment of the README.
test -d .venv || python3 -m venv .venv
"$bin/pip" install -q -e '.[dev,docs,bench]'
