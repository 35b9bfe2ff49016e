# LeRobot pulls CUDA, so it is not installed here: a Python 3.12 or newer may have it, with pytest and
# what .[metaworld,cli] brings.
for python in "${LEROBOT_PYTHON:-}" python3.13 python3.12; do
  if [ -z "$python" ] || ! "$python" -c 'import cyclopts, lerobot, metaworld, pytest, rich' 2>/dev/null; then
    continue
  fi
  "$python" -m pip install -q --no-deps --target "$work/lerobot" . ./plugins/lerobot_env_mtwrappers
  PYTHONPATH="$work/lerobot" "$python" -m pytest --all -p no:cacheprovider \
    tests/integrations/test_lerobot.py
  exit
done
echo "skipped: no Python here has LeRobot, pytest and what .[metaworld,cli] brings; LEROBOT_PYTHON may name one"
