# RLlib pins Gymnasium, so nothing but Ray's own steps comes after this.
"$bin/pip" install -q -e '.[rllib]'
