# Libraries that render without a display, so that pictures and video are tested too.
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  (apt-get update -qq && apt-get install -y -qq libegl1 libosmesa6) >/dev/null 2>&1 || echo "none installed"
fi
