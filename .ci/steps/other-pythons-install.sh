# An environment for each of the other supported Pythons.
# The Python of `bin` is not there yet.
bin=$(dirname "$(command -v python3)") .ci/pythons | while read -r version program; do
  if [ "$program" = none ]; then continue; fi
  "$program" -m venv "$work/$version"
  "$work/$version/bin/pip" install -q '.[test]' </dev/null
  echo "Python $version"
done
