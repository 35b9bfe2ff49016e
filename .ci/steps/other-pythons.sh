# The fast tier on the other Pythons: all of it on the newest. Those between it and the Python of the
# other steps run what Pythons do differently (processes, signals, pickles, classes, messages), and
# leave out the rooms that compute with NumPy, SciPy and MuJoCo alone, or stand on the others.
computing="adapters continual evaluation export integrations metaworld processors"
standing_on_others="cli envs samplers tasks testing wrappers test_docs.py test_docstrings.py"
pythons=$(.ci/pythons)
newest=$(tail -n 1 <<<"$pythons")
unseen=""
while read -r version program; do
  if [ "$program" = none ]; then
    unseen="$unseen $version"
    continue
  fi
  skipped=()
  if [ "$version $program" != "$newest" ]; then
    for room in $computing $standing_on_others; do skipped+=("--ignore=tests/$room"); done
  fi
  echo "--- Python $version"
  "$work/$version/bin/python" -m pytest -n auto --dist loadfile "${skipped[@]}" </dev/null
done <<<"$pythons"
echo "supported Pythons that are not here:${unseen:- none}"
